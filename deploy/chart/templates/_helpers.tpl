{{- define "vmcp.labels" -}}
app.kubernetes.io/name: {{ .Values.name }}
{{- end }}

{{- define "vmcp.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* 90 % of the memory limit, in bytes. */}}
{{- define "vmcp.gomemlimit" -}}
{{- $m := .Values.memory | toString -}}
{{- if not (regexMatch "^[1-9][0-9]*(Mi|Gi)$" $m) -}}
{{- fail (printf "memory: want a whole number of Mi or Gi, such as 512Mi, have %q" $m) -}}
{{- end -}}
{{- $unit := ternary 1073741824 1048576 (hasSuffix "Gi" $m) -}}
{{- div (mul (regexFind "^[0-9]+" $m | int64) $unit 9) 10 -}}
{{- end }}

{{/* The Lease of processes with --server. A name that has dots, or is too long for a DNS label, is shortened as vmcp does. */}}
{{- define "vmcp.lease" -}}
{{- $s := .Values.server -}}
{{- if or (contains "." $s) (gt (len $s) 51) -}}
{{- printf "vmcp-status-%s-%s" (replace "." "-" $s | trunc 42 | trimAll "-") (sha256sum $s | trunc 8) -}}
{{- else -}}
vmcp-status-{{ $s }}
{{- end -}}
{{- end }}

{{/* The configuration of the process: the values' config, and the admin port. */}}
{{- define "vmcp.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if .Values.admin.tokenSecret -}}
{{- $_ := set $config "admin" (dict "listen" (printf ":%d" (int .Values.admin.port)) "tokenFile" "/etc/vmcp/admin/token") -}}
{{- end -}}
{{- if $config }}{{ toYaml $config }}{{ end -}}
{{- end }}
