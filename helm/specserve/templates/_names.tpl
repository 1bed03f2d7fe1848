{{/* Names, labels and images. */}}

{{- define "specserve.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 22 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 22 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 22 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "specserve.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "specserve.labels" -}}
{{ include "specserve.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "specserve.serviceAccount" -}}
{{- default (ternary (include "specserve.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{/* Image reference of (list ROOT IMAGE): a digest goes before a tag. */}}
{{- define "specserve.image" -}}
{{- $root := index . 0 -}}{{- $image := index . 1 -}}
{{- if $image.digest -}}{{ printf "%s@%s" $image.repository $image.digest }}
{{- else -}}{{ printf "%s:%s" $image.repository (default $root.Chart.AppVersion $image.tag) }}
{{- end -}}
{{- end -}}

{{/* What every container may not do. (list CAPABILITIES) */}}
{{- define "specserve.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
  {{- with . }}
  add: {{ toJson . }}
  {{- end }}
{{- end -}}

{{/* What every pod has, of the root. */}}
{{- define "specserve.podBasics" -}}
serviceAccountName: {{ include "specserve.serviceAccount" . }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- end -}}

{{/* Where pods may run, of (list OPTIONS LABELS). */}}
{{- define "specserve.scheduling" -}}
{{- $options := index . 0 -}}
{{- with $options.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $options.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $options.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $options.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $options.spread }}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- index $ 1 | nindent 8 }}
  {{- end }}
{{- end }}
{{- end -}}
