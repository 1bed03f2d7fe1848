{{/* The pod of an engine, and what follows its load. */}}

{{/* Seconds that an engine may take until it is ready. */}}
{{- define "specserve.readyTimeout" -}}
{{- int (ceil ((.Values.config.engine | default dict).ready_timeout_s | default 600)) -}}
{{- end -}}

{{/* Labels that select the pods of (list ROOT ENGINE). */}}
{{- define "specserve.engineSelector" -}}
{{- $root := index . 0 -}}{{- $engine := index . 1 -}}
{{ include "specserve.selector" $root }}
app.kubernetes.io/component: engine
specserve/pool: {{ $engine.pool | quote }}
specserve/role: {{ $engine.role }}
{{- end -}}

{{/* Metadata and spec of the pods of (list ROOT ENGINE). */}}
{{- define "specserve.engineTemplate" -}}
{{- $root := index . 0 -}}{{- $engine := index . 1 -}}{{- $options := $engine.options -}}
{{- $settings := $root.Values.config.engine | default dict -}}
{{- $several := gt (int $engine.nodes) 1 -}}
{{- $offline := or $root.Values.offline (not (empty $root.Values.modelCache.image.reference)) -}}
{{- $ready := int (include "specserve.readyTimeout" $root) -}}
metadata:
  labels: {{- include "specserve.labels" $root | nindent 4 }}
    app.kubernetes.io/component: engine
    specserve/pool: {{ $engine.pool | quote }}
    specserve/role: {{ $engine.role }}
  annotations:
    # Of this pool and the launcher alone: other changes of the settings restart no engine.
    specserve/config: {{ dict "profile" $engine.profile "runtime" $engine.runtime "engine" $settings "model" $engine.model | toJson | sha256sum | trunc 16 }}
    {{- with $options.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- include "specserve.podBasics" $root | nindent 2 }}
  {{- include "specserve.scheduling" (list $options (include "specserve.engineSelector" .)) | nindent 2 }}
  {{- with $options.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- if $options.hostNetwork }}
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  {{- end }}
  # The engine finishes open requests for stop_grace_s; the gateway sees its health change and sends no more.
  terminationGracePeriodSeconds: {{ add (int (ceil ($settings.stop_grace_s | default 10))) 20 }}
  containers:
    - name: engine
      image: {{ include "specserve.image" (list $root (mergeOverwrite (deepCopy $options.image) (dict "repository" (default (index $root.Values.engineImages $engine.device) $options.image.repository)))) }}
      imagePullPolicy: {{ $options.image.pullPolicy }}
      command: [specserve]
      args: [engine, --config, /etc/specserve/specserve.yaml, --pool, {{ $engine.pool | quote }}{{ if ne $engine.role "whole" }}, --role, {{ $engine.role }}{{ end }}]
      env:
        - { name: HOME, value: /home/specserve }
        - { name: SPECSERVE_CACHE_DIR, value: /var/cache/specserve }
        - { name: HF_HOME, value: /var/cache/specserve/huggingface }
        {{- if $several }}
        - { name: SPECSERVE_ENGINE__LEADER_ADDRESS, value: "$(LWS_LEADER_ADDRESS):20000" }
        - { name: SPECSERVE_ENGINE__NODE_RANK, value: "$(LWS_WORKER_INDEX)" }
        {{- end }}
        {{- if $offline }}
        - { name: HF_HUB_OFFLINE, value: "1" }
        {{- else if $root.Values.secrets.hubToken.existingSecret }}
        - name: HF_TOKEN
          valueFrom: { secretKeyRef: { name: {{ $root.Values.secrets.hubToken.existingSecret }}, key: {{ $root.Values.secrets.hubToken.key }} } }
        {{- end }}
        {{- with $options.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - { name: engine, containerPort: 30000 }
        {{- if eq $engine.role "prefill" }}
        - { name: bootstrap, containerPort: 8998 }
        {{- end }}
      startupProbe:
        httpGet: { path: /health, port: engine }
        # A minute more than the launcher waits, so that its own words come first.
        failureThreshold: {{ add (div $ready (int $root.Values.probes.engine.startup.periodSeconds)) (div 60 (int $root.Values.probes.engine.startup.periodSeconds)) 1 }}
        {{- toYaml $root.Values.probes.engine.startup | nindent 8 }}
      livenessProbe:
        httpGet: { path: /health, port: engine }
        {{- toYaml $root.Values.probes.engine.liveness | nindent 8 }}
      readinessProbe:
        httpGet: { path: /health, port: engine }
        {{- toYaml $root.Values.probes.engine.readiness | nindent 8 }}
      {{- with include "specserve.engineResources" (list $engine) | fromJson }}
      resources: {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext: {{- include "specserve.containerSecurity" $options.capabilities | nindent 8 }}
      volumeMounts:
        - { name: config, mountPath: /etc/specserve, readOnly: true }
        - { name: home, mountPath: /home/specserve }
        - { name: tmp, mountPath: /tmp }
        - { name: models, mountPath: /var/cache/specserve{{ if $root.Values.modelCache.image.reference }}, readOnly: true{{ end }} }
        {{- if eq $engine.device "cuda" }}
        - { name: shm, mountPath: /dev/shm }
        {{- end }}
        {{- with $options.draftVolume.mountPath }}
        - { name: draft, mountPath: {{ . }}, readOnly: true }
        {{- end }}
        {{- with $options.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      configMap: { name: {{ include "specserve.fullname" $root }} }
    - name: home
      emptyDir: {}
    - name: tmp
      emptyDir: {}
    - name: models
      {{- include "specserve.modelVolume" $root | nindent 6 }}
    {{- if eq $engine.device "cuda" }}
    - name: shm
      emptyDir: { medium: Memory, sizeLimit: {{ $options.sharedMemory }} }
    {{- end }}
    {{- with $options.draftVolume }}
    {{- if .mountPath }}
    - name: draft
      {{- if .image }}
      image: { reference: {{ .image }} }
      {{- else }}
      persistentVolumeClaim: { claimName: {{ required (printf "engines.%s.draftVolume needs existingClaim or image" $engine.pool) .existingClaim }}, readOnly: true }
      {{- end }}
    {{- end }}
    {{- end }}
    {{- with $options.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* The claim, image or emptyDir with the models. */}}
{{- define "specserve.modelVolume" -}}
{{- $cache := .Values.modelCache -}}
{{- if $cache.image.reference -}}
image: {{- toYaml $cache.image | nindent 2 }}
{{- else if $cache.enabled -}}
persistentVolumeClaim: { claimName: {{ default (printf "%s-models" (include "specserve.fullname" .)) $cache.existingClaim }} }
{{- else -}}
emptyDir: {}
{{- end -}}
{{- end -}}

{{/* Resources of (list ENGINE) as JSON: its GPUs, unless the options say otherwise. */}}
{{- define "specserve.engineResources" -}}
{{- $engine := index . 0 -}}
{{- $own := dict -}}
{{- if gt (int $engine.gpus) 0 -}}
{{- $own = dict "limits" (dict $engine.options.gpuResource (int $engine.gpus)) "requests" (dict $engine.options.gpuResource (int $engine.gpus)) -}}
{{- end -}}
{{- mergeOverwrite $own (deepCopy $engine.options.resources) | toJson -}}
{{- end -}}
