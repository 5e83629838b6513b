package model

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/quorate/quorate/api/v1alpha1"
)

// Settings are the part of a specification that members are restarted for, and that can be set back when the first of them does
// not get well with it.
type Settings struct {
	Version   string                       `json:"version"`
	Image     *string                      `json:"image,omitempty"`
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	Template  *v1alpha1.PodTemplate        `json:"template,omitempty"`
	Config    *v1alpha1.EtcdConfig         `json:"config,omitempty"`
}

// SettingsOf returns the settings in a specification.
func SettingsOf(s v1alpha1.EtcdClusterSpec) Settings {
	return Settings{Version: s.Version, Image: s.Image, Resources: s.Resources, Template: s.Template, Config: s.Config}
}

// Into writes the settings into a specification.
func (s Settings) Into(spec *v1alpha1.EtcdClusterSpec) {
	spec.Version, spec.Image, spec.Resources, spec.Template, spec.Config = s.Version, s.Image, s.Resources, s.Template, s.Config
}

// Encode returns the settings as JSON.
func (s Settings) Encode() (string, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encode settings: %w", err)
	}
	return string(raw), nil
}

// DecodeSettings reads what Encode wrote.
func DecodeSettings(text string) (s Settings, err error) {
	if err = json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("decode settings: %w", err)
	}
	return s, nil
}

// Sum tells encoded settings apart.
func Sum(encoded string) string {
	sum := sha256.Sum256([]byte(encoded))
	return hex.EncodeToString(sum[:8])
}
