"""What papers have published, printed beside what tilewright finds: one folder a paper."""
