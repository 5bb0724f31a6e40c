/* Files of data/ that are read and written one part after the other; a failure ends the program. */
#ifndef DATA_FILES_H
#define DATA_FILES_H

#include <stdio.h>
#include <stdlib.h>

static inline void fail(const char *path, const char *what)
{
    fprintf(stderr, "%s: %s\n", path, what);
    exit(1);
}

static inline FILE *opened(const char *path, const char *mode)
{
    FILE *file = fopen(path, mode);
    if (!file)
        fail(path, *mode == 'r' ? "cannot be read" : "cannot be written");
    return file;
}

/* Read what is next in a file. */
static inline void fill(FILE *file, const char *path, void *values, size_t size)
{
    if (fread(values, 1, size, file) != size)
        fail(path, "is too short");
}

/* Close a file, which must end here. */
static inline void finish(FILE *file, const char *path)
{
    if (fgetc(file) != EOF)
        fail(path, "is too long");
    fclose(file);
}

#endif
