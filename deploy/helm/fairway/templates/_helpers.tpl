{{- /* The image of the controller. */}}
{{- define "fairway.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* What admits jobs, found out where it is not given; and what must hold before anything is installed. */}}
{{- define "fairway.admission" -}}
{{- if ne .Release.Namespace "fairway-system" }}
{{- fail (printf "the release is in the namespace %s, and Fairway is in fairway-system: add --namespace fairway-system --create-namespace" .Release.Namespace) }}
{{- end }}
{{- $crd := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "workloads.kueue.x-k8s.io" }}
{{- $ours := eq (dig "metadata" "labels" "app.kubernetes.io/name" "" $crd) "fairway" }}
{{- $served := .Capabilities.APIVersions.Has "kueue.x-k8s.io/v1beta2" }}
{{- $found := ternary "fairway" (ternary "kueue" "none" $served) $ours }}
{{- $way := ternary $found .Values.admission (eq .Values.admission "auto") }}
{{- if and (eq $way "fairway") $crd (not $ours) }}
{{- fail "admission: fairway, but the cluster has Kueue's own CustomResourceDefinition workloads.kueue.x-k8s.io; use admission: kueue, or uninstall Kueue first" }}
{{- end }}
{{- /* With auto, the controller follows Kueue when it is installed or removed, with the rights that Kueue needs. */}}
{{- ternary "kueue" $way (and (eq .Values.admission "auto") (ne $way "fairway")) }}
{{- end }}

{{- /* The option of the controller. */}}
{{- define "fairway.option" -}}
{{- $way := include "fairway.admission" . }}
{{- ternary "auto" $way (and (eq .Values.admission "auto") (ne $way "fairway")) }}
{{- end }}
