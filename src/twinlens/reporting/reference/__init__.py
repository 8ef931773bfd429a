"""The reference of a spec: pages, one document and a JSON schema, all from the same table of fields and options."""
