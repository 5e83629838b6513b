package config

import (
	"encoding/json"
	"fmt"

	"github.com/quorate/quorate/internal/cluster/redis/model"
)

// AnnounceKey is the key of the ConfigMap that holds announcements by the names of pods. A gate passes on what it finds there, and
// a running server is told what has changed since.
const AnnounceKey = "announce.json"

// Announcements is the content of AnnounceKey.
func Announcements(doors []model.Door) (string, error) {
	byPod := map[string]model.Announcement{}
	for _, d := range doors {
		if d.Problem == "" {
			byPod[d.Pod] = d.Announcement
		}
	}
	raw, err := json.Marshal(byPod)
	if err != nil {
		return "", fmt.Errorf("encode announcements: %w", err)
	}
	return string(raw), nil
}

// ReadAnnouncements reads it back.
func ReadAnnouncements(raw []byte) (map[string]model.Announcement, error) {
	var byPod map[string]model.Announcement
	if err := json.Unmarshal(raw, &byPod); err != nil {
		return nil, fmt.Errorf("read %s: %w", AnnounceKey, err)
	}
	return byPod, nil
}
