/* An autoencoder: all values of a sample, 4 hidden units for each of the code, the code of --hidden units, and back.
 * The loss is half the squared error of what comes out; labels are not used. */
#include "model/model.h"

#include <stdio.h>

static model_nodes autoencoder_build(psgd_graph *g, const model_shape *shape, const model_settings *settings)
{
    int64_t in = psgd__model_features(shape), code = settings->hidden, width[] = {in, 4 * code, code, 4 * code, in};
    model_nodes m = psgd__model_inputs(g, shape);
    psgd_node x = psgd_graph_reshape(g, m.x, 2, (int64_t[]){in, shape->n}), a = x;
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "W%d", i + 1);
        a = psgd_graph_affine(g, a, psgd_graph_parameter(g, name, width[i + 1], width[i] + 1));
        if (i == 0 || i == 2) a = psgd__model_activate(g, settings->activation, a); /* the code is linear */
    }
    m.output = a;
    m.loss = psgd_graph_squared(g, a, x);
    return m;
}

const model psgd__model_autoencoder = {
    .name = "autoencoder",
    .summary = "An autoencoder with a code of --hidden units",
    .sample = "anything",
    .takes = {"hidden", "activation"},
    .unlabelled = true,
    .build = autoencoder_build,
};
