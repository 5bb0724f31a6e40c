/* Start to write the outputs of a tile, or the sums so far. */
static void put(run_t *r, const tile_t *tile)
{
    const layer_t *l = r->layer;
    long begin;
    if (tile->at[K] < trips(l, K) - 1) {
        const dma_box_t b = output_box(l, tile, SUM_BITS, &begin);
        r->puts[tile->copy[OUT]] =
            dma_put(PARTIAL_SUMS_OUT, r->partial, begin, memory, copy_of(r, OUT, tile), &b);
        return;
    }
    if (r->partly)
        finish(r, tile);
    const dma_box_t b = output_box(l, tile, OUTPUT_BITS, &begin);
    r->puts[tile->copy[OUT]] = dma_put(OUTPUT, r->output, begin, memory, copy_of(r, OUT, tile), &b);
}

/* Lay out the buffers: the copies of the outputs, of the weights and of the inputs. */
static void lay_out(run_t *r)
{
    const layer_t *l = r->layer;
    const int *step = l->step;
    for (int axis = 0; axis < 2; axis++)
        r->extent[axis] = (step[Y + axis] - 1) * l->stride[axis] + (l->kernel[axis] - 1) * l->dilation[axis] + 1;
    const int *held = l->reuse == KEEP_WEIGHTS ? l->size : step;
    const long groups = step[G], window = (long)l->kernel[0] * l->kernel[1];
    r->partly = trips(l, K) > 1;
    r->held[OUT] = groups * step[N] * step[C] * step[Y] * step[X] * (r->partly ? SUM_BITS : OUTPUT_BITS);
    r->held[W] = groups * held[C] * held[K] * window * WEIGHT_BITS;
    r->held[IN] = groups * step[N] * step[K] * r->extent[0] * r->extent[1] * INPUT_BITS;
    r->first[OUT] = 0;
    r->first[W] = r->first[OUT] + COPIES * r->held[OUT];
    r->first[IN] = r->first[W] + COPIES * r->held[W];
}

void run_layer(const layer_t *layer, const unsigned char *input, const unsigned char *weights,
               const int32_t *biases, unsigned char *partial, unsigned char *output)
{
    run_t run = {.layer = layer, .input = input, .weights = weights, .biases = biases, .partial = partial,
                 .output = output, .halo = halo_loop(layer)};
    tile_t now = {{0}, {0}}, next;
    lay_out(&run);
    fetch(&run, NULL, &now);
    for (int more = 1; more; now = next) {
        next = now;
        more = advance(layer, &next);
        dma_wait(run.gets);
        if (more && COPIES == 2) /* transfers of the next tile run beside the computation of this one */
            fetch(&run, &now, &next);
        compute(&run, &now);
        if (!more || changes(layer, OUT, &now, &next))
            put(&run, &now);
        if (more && COPIES == 1)
            fetch(&run, &now, &next);
    }
    dma_wait_all();
}

