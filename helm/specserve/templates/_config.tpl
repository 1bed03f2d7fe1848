{{/* The settings file, and the engines that it asks for. */}}

{{/* Refuses what the chart itself sets, secrets, and names that Kubernetes does not take. */}}
{{- define "specserve.validate" -}}
{{- $config := .Values.config -}}
{{- $gateway := $config.gateway | default dict -}}
{{- range list "api_key" "backend_api_key" -}}
{{- if index $gateway . -}}
{{- fail (printf "config.gateway.%s would be readable in a ConfigMap: put it in a Secret and name that in secrets.%s" . (camelcase . | untitle)) -}}
{{- end -}}
{{- end -}}
{{- if ($config.admission | default dict).rate_store -}}
{{- fail "config.admission.rate_store would be readable in a ConfigMap: put it in a Secret and name that in secrets.rateStore" -}}
{{- end -}}
{{- if $gateway.host -}}{{- fail "config.gateway.host is set by the chart: use gateway.listen" -}}{{- end -}}
{{- if $config.cache_dir -}}{{- fail "config.cache_dir is set by the chart: it is the volume of modelCache" -}}{{- end -}}
{{- range list "node_rank" "leader_address" -}}
{{- if hasKey ($config.engine | default dict) . -}}{{- fail (printf "config.engine.%s is set by the chart in each pod: remove it" .) -}}{{- end -}}
{{- end -}}
{{- $seen := dict -}}
{{- range $model := $config.models -}}
{{- range $pool := $model.pools | default (list dict) -}}
{{- $name := $pool.name | default "default" -}}
{{- if not (regexMatch "^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$" $name) -}}
{{- fail (printf "pool %q cannot name Kubernetes objects: use up to 20 lower-case letters, digits and hyphens" $name) -}}
{{- end -}}
{{- if hasKey $seen $name -}}{{- fail (printf "two pools are named %q: engines go by the name of their pool, give each its own" $name) -}}{{- end -}}
{{- $_ := set $seen $name true -}}
{{- end -}}
{{- end -}}
{{- range $name, $_ := .Values.engines -}}
{{- if not (hasKey $seen $name) -}}{{- fail (printf "engines.%s belongs to no pool of config.models: pools are %s" $name (keys $seen | sortAlpha | join ", ")) -}}{{- end -}}
{{- end -}}
{{- if and .Values.modelCache.image.reference (not .Values.offline) -}}
{{- fail "modelCache.image is read-only, so that nothing can be downloaded into it: set offline true" -}}
{{- end -}}
{{- end -}}

{{/*
Every engine workload as JSON {"items": [...]}: its name, model, pool, role, profile, runtime, machines, GPUs a machine,
most replicas, and options. Pools with backends of their own have none.
*/}}
{{- define "specserve.engines" -}}
{{- $root := . -}}
{{- $items := list -}}
{{- range $model := .Values.config.models -}}
{{- range $pool := $model.pools | default (list dict) -}}
{{- if not $pool.backends -}}
{{- $pooled := mergeOverwrite (deepCopy $root.Values.engineDefaults) (deepCopy (index $root.Values.engines ($pool.name | default "default") | default dict)) -}}
{{- $profile := $pool.profile | default dict -}}
{{- range $role := ternary (list "prefill" "decode") (list "whole") (not (empty $pool.prefill)) -}}
{{- $runtime := ternary $pool.prefill ($profile.runtime | default dict) (eq $role "prefill") -}}
{{- $options := ternary (mergeOverwrite (deepCopy $pooled) (deepCopy $pooled.prefill)) $pooled (eq $role "prefill") -}}
{{- $item := dict "model" ($model.name | default "smollm2-135m-instruct") "pool" ($pool.name | default "default") "role" $role "profile" $profile "runtime" $runtime -}}
{{- $items = append $items (include "specserve.engine" (list $root $item $options) | fromJson) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- dict "items" $items | toJson -}}
{{- end -}}

{{/* One of them, of (list ROOT ITEM OPTIONS). */}}
{{- define "specserve.engine" -}}
{{- $root := index . 0 -}}{{- $item := index . 1 -}}{{- $options := index . 2 -}}
{{- with $options.gpuKind -}}
{{- $kind := index $root.Values.gpuKinds . -}}
{{- if not $kind -}}{{- fail (printf "engines.%s.gpuKind %q is not in gpuKinds: %s" $item.pool . (keys $root.Values.gpuKinds | sortAlpha | join ", ")) -}}{{- end -}}
{{- $options = mergeOverwrite (deepCopy $options) (deepCopy $kind) -}}
{{- end -}}
{{- $suffix := ternary "" (printf "-%s" $item.role) (eq $item.role "whole") -}}
{{- $device := $item.runtime.device | default "cpu" -}}
{{- $nodes := int ($item.runtime.nodes | default 1) -}}
{{- $processes := mul (int ($item.runtime.tp | default 1)) (int ($item.runtime.pp | default 1)) -}}
{{- if ne (mod $processes $nodes) 0 -}}{{- fail (printf "pool %s: %d processes do not split over %d machines" $item.pool $processes $nodes) -}}{{- end -}}
{{- $scaled := ne $options.autoscaling.mode "none" -}}
{{- if and $scaled (ne $item.role "whole") -}}{{- fail (printf "pool %s: the router that pairs prefill and decode engines knows a fixed list of them: set autoscaling.mode none" $item.pool) -}}{{- end -}}
{{- $most := ternary (int $options.autoscaling.maxReplicas) (int $options.replicas) $scaled -}}
{{- $gpus := ternary (div $processes $nodes) 0 (eq $device "cuda") -}}
{{- mergeOverwrite (deepCopy $item) (dict "name" (printf "%s-%s%s" (include "specserve.fullname" $root) $item.pool $suffix) "device" $device "nodes" $nodes "gpus" $gpus "most" $most "scaled" $scaled "options" $options) | toJson -}}
{{- end -}}

{{/* URLs of an engine's replicas, of (list ROOT ENGINE), as JSON {"urls": [...]}. */}}
{{- define "specserve.urls" -}}
{{- $root := index . 0 -}}{{- $engine := index . 1 -}}
{{- $urls := list -}}
{{- range $index := until (int $engine.most) -}}
{{- $urls = append $urls (printf "http://%s-%d.%s.%s.svc:30000" $engine.name $index $engine.name $root.Release.Namespace) -}}
{{- end -}}
{{- dict "urls" $urls | toJson -}}
{{- end -}}

{{/* The settings as YAML, with the addresses of the engines that the chart starts. */}}
{{- define "specserve.settings" -}}
{{- $root := . -}}
{{- $config := deepCopy .Values.config -}}
{{- $engines := (include "specserve.engines" . | fromJson).items -}}
{{- range $model := $config.models -}}
{{- if not $model.pools -}}{{- $_ := set $model "pools" (list dict) -}}{{- end -}}
{{- range $pool := $model.pools -}}
{{- range $engine := $engines -}}
{{- if eq $engine.pool ($pool.name | default "default") -}}
{{- if eq $engine.role "whole" -}}
{{- $_ := set $pool "backends" (include "specserve.urls" (list $root $engine) | fromJson).urls -}}
{{- else -}}
{{- $_ := set $pool "backends" (list (printf "http://%s-%s.%s.svc:30000" (include "specserve.fullname" $root) $engine.pool $root.Release.Namespace)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}
