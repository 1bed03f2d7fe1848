{{/*
Autoscaling of (list ROOT ENGINE) on open requests, which hold the engine's queue (those above
runtime.max_running_requests wait), on the part of the KV pool that running requests hold, and on late first tokens.
*/}}
{{- define "specserve.engineScaling" -}}
{{- $root := index . 0 -}}{{- $engine := index . 1 -}}{{- $scaling := $engine.options.autoscaling -}}
{{- $running := int ($engine.runtime.max_running_requests | default 16) -}}
{{- $inFlight := int ($scaling.inFlightPerReplica | default (max 1 (div (mul $running 3) 4))) -}}
{{- $target := ternary (dict "apiVersion" "leaderworkerset.x-k8s.io/v1" "kind" "LeaderWorkerSet") (dict "apiVersion" "apps/v1" "kind" "StatefulSet") (gt (int $engine.nodes) 1) -}}
{{- $_ := set $target "name" $engine.name -}}
{{- /* Names of pools are unique here; those of models may be no label values. */ -}}
{{- $labels := dict "pool" $engine.pool -}}
{{- $matchers := printf "namespace=%q,model=%q,pool=%q" $root.Release.Namespace $engine.model $engine.pool -}}
{{- $full := printf "sum(specserve_kv_tokens{%s,state=\"full\"})" $matchers -}}
{{- $first := "specserve_time_to_first_token_seconds" -}}
{{- $room := printf "sum(specserve_kv_room_tokens{%s})" $matchers }}
{{- if eq $scaling.mode "hpa" }}
---
# Both metrics come from a Prometheus adapter; README.md has its rules.
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ $engine.name }}
  labels: {{- include "specserve.labels" $root | nindent 4 }}
spec:
  scaleTargetRef: {{- toYaml $target | nindent 4 }}
  minReplicas: {{ $scaling.minReplicas }}
  maxReplicas: {{ $scaling.maxReplicas }}
  behavior:
    scaleDown: {{ include "specserve.scaleDown" $scaling }}
  metrics:
    - type: External
      external:
        metric: { name: specserve_requests_in_flight, selector: { matchLabels: {{ toJson $labels }} } }
        target: { type: AverageValue, averageValue: {{ $inFlight | quote }} }
    - type: External
      external:
        metric: { name: specserve_kv_used_percent, selector: { matchLabels: {{ toJson $labels }} } }
        target: { type: Value, value: {{ $scaling.kvUsedPercent | quote }} }
    {{- if $scaling.firstTokenSeconds }}
    - type: External
      external:
        metric: { name: specserve_first_token_late_percent, selector: { matchLabels: {{ toJson $labels }} } }
        target: { type: Value, value: {{ $scaling.latePercent | quote }} }
    {{- end }}
{{- else }}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: {{ $engine.name }}
  labels: {{- include "specserve.labels" $root | nindent 4 }}
spec:
  scaleTargetRef: {{- toYaml $target | nindent 4 }}
  minReplicaCount: {{ $scaling.minReplicas }}
  maxReplicaCount: {{ $scaling.maxReplicas }}
  # Without figures the number stays as it is.
  fallback: { failureThreshold: 3, replicas: {{ $scaling.minReplicas }}, behavior: currentReplicasIfHigher }
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        scaleDown: {{ include "specserve.scaleDown" $scaling }}
  triggers:
    - type: prometheus
      name: open-requests
      metricType: AverageValue
      metadata:
        serverAddress: {{ $root.Values.prometheus.serverAddress }}
        query: {{ printf "sum(specserve_requests_in_flight{%s})" $matchers | quote }}
        threshold: {{ $inFlight | quote }}
    - type: prometheus
      name: kv-used-percent
      metricType: Value
      metadata:
        serverAddress: {{ $root.Values.prometheus.serverAddress }}
        query: {{ printf "100 * %s / (%s + %s)" $full $full $room | quote }}
        threshold: {{ $scaling.kvUsedPercent | quote }}
    {{- with $scaling.firstTokenSeconds }}
    {{- $early := printf "sum(rate(%s_bucket{%s,le=~\"%v|%v.0\"}[5m]))" $first $matchers . . }}
    - type: prometheus
      name: late-first-tokens-percent
      metricType: Value
      metadata:
        serverAddress: {{ $root.Values.prometheus.serverAddress }}
        # Nothing streamed: nothing late.
        query: {{ printf "100 * (1 - %s / (sum(rate(%s_count{%s}[5m])) > 0)) or vector(0)" $early $first $matchers | quote }}
        threshold: {{ $scaling.latePercent | quote }}
    {{- end }}
{{- end }}
{{- end -}}

{{/* One replica at a time, after a calm: a replica that is back needs a model load. */}}
{{- define "specserve.scaleDown" -}}
{ stabilizationWindowSeconds: {{ .scaleDownAfterSeconds }}, policies: [{ type: Pods, value: 1, periodSeconds: 120 }] }
{{- end -}}
