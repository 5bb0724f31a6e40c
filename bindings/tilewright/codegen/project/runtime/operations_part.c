/* Operations tile by tile --------------------------------------------------------------------------------- */

typedef struct {
    const operation_t *operation;
    const unsigned char *const *inputs;
    unsigned char *output;
    int extent[2];   /* rows and columns of the inputs under the largest tile */
    long copy_bits;  /* of all buffers, once */
    long input_bits; /* of one input */
    dma_ticket_t gets, puts[2];
} operation_run_t;

/* Where the buffers of a tile begin: bits of the memory before them. */
static long input_of_part(const operation_run_t *r, const part_t *part, int input)
{
    return part->copy * r->copy_bits + input * r->input_bits;
}

static long output_of_part(const operation_run_t *r, const part_t *part)
{
    return input_of_part(r, part, r->operation->input_count);
}

