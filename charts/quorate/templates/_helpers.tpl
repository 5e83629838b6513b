{{- define "quorate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Long enough for the longest suffix below. */}}
{{- define "quorate.fullname" -}}
{{- $name := include "quorate.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* The Deployment, and what belongs to it. */}}
{{- define "quorate.manager" -}}
{{ include "quorate.fullname" . }}-manager
{{- end }}

{{/* What is not namespaced: releases for some namespaces may have the same name, each in a namespace of its own. */}}
{{- define "quorate.clusterName" -}}
{{- include "quorate.fullname" . }}{{ if .Values.watchNamespaces }}-{{ .Release.Namespace }}{{ end }}
{{- end }}

{{- define "quorate.serviceAccount" -}}
{{- if .Values.serviceAccount.name }}{{ .Values.serviceAccount.name }}
{{- else if .Values.serviceAccount.create }}{{ include "quorate.manager" . }}
{{- else }}default{{ end }}
{{- end }}

{{/* These never change: a Deployment's selector cannot. */}}
{{- define "quorate.selector" -}}
app.kubernetes.io/name: {{ include "quorate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: manager
{{- end }}

{{- define "quorate.labels" -}}
{{- $own := dict
  "app.kubernetes.io/name" (include "quorate.name" .)
  "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/version" (.Chart.AppVersion | replace "+" "_")
  "app.kubernetes.io/managed-by" .Release.Service
  "app.kubernetes.io/part-of" "quorate"
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_") }}
{{- merge $own .Values.commonLabels | toYaml }}
{{- end }}

{{- define "quorate.image" -}}
{{- $repository := .Values.image.repository }}
{{- if .Values.registry }}
{{- $repository = printf "%s/%s" (trimSuffix "/" .Values.registry) (regexReplaceAll "^[^/]+/" $repository "") }}
{{- end }}
{{- if .Values.image.digest }}{{ $repository }}@{{ .Values.image.digest }}
{{- else }}{{ $repository }}:{{ default .Chart.AppVersion .Values.image.tag }}{{ end }}
{{- end }}

{{- define "quorate.metricsAccess" -}}
{{- default (ternary "Off" "Authorized" (not (empty .Values.watchNamespaces))) .Values.metrics.access }}
{{- end }}

{{/* A file of config/, which this chart has by a symbolic link: (list $ path). Without the link there is nothing, or the link's own text. */}}
{{- define "quorate.file" -}}
{{- $text := (index . 0).Files.Get (index . 1) }}
{{- if not (contains "\n" $text) }}{{ fail (printf "this chart has no %s: it was copied without its symbolic links. %s" (index . 1) (include "quorate.whole" .)) }}{{ end }}
{{- $text }}
{{- end }}

{{- define "quorate.whole" -}}
Take the chart of a release, or clone the repository where links can be made (git config core.symlinks true)
{{- end }}

{{/* The rules of a Role, as JSON: those of config/rbac without what belongs to no namespace. */}}
{{- define "quorate.namespacedRules" -}}
{{- $rules := list }}
{{- range . }}
{{- $resources := without .resources "nodes" "persistentvolumes" "storageclasses" }}
{{- if $resources }}{{ $rules = append $rules (merge (dict "resources" $resources) .) }}{{ end }}
{{- end }}
{{- toJson $rules }}
{{- end }}

{{/* Who the rights are for. */}}
{{- define "quorate.subjects" -}}
subjects:
- kind: ServiceAccount
  name: {{ include "quorate.serviceAccount" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}
