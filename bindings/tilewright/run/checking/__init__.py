"""What `check` looks at: claims that are proven once more, fields that must fit each other, findings."""
