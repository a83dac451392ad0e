# Removes what examples/quota.yaml defines; the namespaces stay.
fairway quota apply -y - <<'END'
apiVersion: fairway.dev/v1alpha1
kind: QuotaDefinition
metadata: {name: company}
spec: {flavors: [default-flavor], organizations: []}
END
