#!/usr/bin/python3
"""Makes graph.txt beside it: loss, gradient and Hv of eleven networks by PyTorch's double backward in float64.

Run with Debian's python3-torch: tests/golden/make_graph.py > tests/golden/graph.txt. Inputs, parameters and v are
sines of their index or of its square, so that tests/test_graph_golden.c makes them again. For each network: its name,
the number of parameters, the loss, then every k-th entry of the gradient and of Hv.
"""
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
ENTRIES = 40


def wave(shape, scale, speed, phase):
    n = 1
    for size in shape:
        n *= size
    return (scale * torch.sin(speed * torch.arange(n) + phase)).reshape(shape)


def chirp(shape, scale):
    """Sines of squares, which no window sees as a wave."""
    i = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    return (scale * torch.sin(0.37 * (i * i))).reshape(shape)


def convolve(x, W, k, stride=1, padding=0):
    out, c = W.shape[0], x.shape[1]
    weight = W[:, :-1].reshape(out, k, k, c).permute(0, 3, 1, 2)
    return F.conv2d(x, weight, W[:, -1], stride=stride, padding=padding)


def affine(x, W):
    return x.flatten(1) @ W[:, :-1].T + W[:, -1]


def pictures(c, h, w, n):
    return wave((c, h, w, n), 1, 0.7, 0.3).permute(3, 0, 1, 2)


def sequences(times, features, n):
    return wave((times, features, n), 1, 0.7, 0.3).permute(0, 2, 1)


def lenet5(W):
    x, y = pictures(1, 28, 28, 3), torch.arange(3)
    x = F.relu(F.max_pool2d(convolve(x, W[0], 5), 2))
    x = F.relu(F.max_pool2d(convolve(x, W[1], 5), 2))
    x = F.relu(affine(x, W[2]))
    x = F.relu(affine(x, W[3]))
    return F.cross_entropy(affine(x, W[4]), y)


def mlp(W):
    x = wave((6, 5), 1, 0.7, 0.3).T
    return F.cross_entropy(affine(torch.tanh(affine(x, W[0])), W[1]), torch.arange(5) % 4)


def lstm(W):
    x, h, c = sequences(7, 2, 4), torch.zeros(4, 5), torch.zeros(4, 5)
    for t in range(7):
        a = torch.cat([x[t], h], 1) @ W[0][:, :-1].T + W[0][:, -1]
        i, f, g, o = a.chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
    return F.binary_cross_entropy_with_logits(affine(h, W[1]), (torch.arange(4.0) % 2)[:, None])


def rnn(W):
    x, h = sequences(7, 2, 4), torch.zeros(4, 5)
    for t in range(7):
        h = torch.tanh(torch.cat([x[t], h], 1) @ W[0][:, :-1].T + W[0][:, -1])
    return F.binary_cross_entropy_with_logits(affine(h, W[1]), (torch.arange(4.0) % 2)[:, None])


def mixed(W):
    """Stride, padding, a leak, mean pooling, the response norm over all channels, batch normalisation, squares, L2."""
    x = F.leaky_relu(convolve(pictures(2, 9, 8, 4), W[0], 3, stride=2, padding=1), 0.1)
    x = x / (2 + 0.3 * (5 / x.shape[1]) * (x ** 2).sum(1, keepdim=True)) ** 0.75
    mean, variance = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), unbiased=False, keepdim=True)
    x = F.avg_pool2d((x - mean) / torch.sqrt(variance + 0.01), 2, 1)
    y = torch.sigmoid(affine(x, W[1])) - wave((3, 4), 1, 0.4, 0.1).T
    return (y ** 2).sum() / 8 + 0.05 * (W[0] ** 2).sum()


def logistic(W):
    return F.cross_entropy(affine(wave((6, 5), 1, 0.7, 0.3).T, W[0]), torch.arange(5) % 4)


def batch_norm(x, dims, W, epsilon):
    """Written out: F.batch_norm of PyTorch 1.13 gives a gradient here that differences of its own values contradict."""
    shape = (1, -1) + (1,) * (x.dim() - 2)
    mean, variance = x.mean(dims, keepdim=True), x.var(dims, unbiased=False, keepdim=True)
    return W[:, 0].reshape(shape) * (x - mean) / torch.sqrt(variance + epsilon) + W[:, 1].reshape(shape)


def normalised(W):
    """Batch normalisation with gain and shift, for each channel and then for each feature."""
    x = convolve(pictures(2, 6, 5, 7), W[0], 3)
    x = F.relu(batch_norm(x, (0, 2, 3), W[1], 0.01))
    x = batch_norm(affine(x, W[2]), 0, W[3], 0.1)
    return F.cross_entropy(x, torch.arange(7) % 5)


def tied(W):
    """An embedding, an LSTM that starts from zero, a decoder with the matrix of the embedding; the mean over tokens."""
    tokens = torch.arange(20).reshape(5, 4) * 7 % 11
    h, c, loss = torch.zeros(4, 3), torch.zeros(4, 3), 0
    for t in range(5):
        x = F.embedding(tokens[t], W[0][:, :-1])
        i, f, g, o = (torch.cat([x, h], 1) @ W[1][:, :-1].T + W[1][:, -1]).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        loss = loss + F.cross_entropy(affine(h, W[0]), (tokens[t] * 3 + 1) % 11) / 5
    return loss


def shapes(W):
    """Reshape, permute, concat, slice, multiply and add around two affine maps."""
    x = wave((6, 5), 1, 0.7, 0.3).T
    a, b = torch.tanh(affine(x, W[0])), affine(x, W[1])
    a, b = a.T.reshape(2, 3, 5), b.T.reshape(3, 2, 5).permute(1, 0, 2)
    c = torch.cat([a * b, b], 1)[:, 1:5]
    return 0.5 * (torch.sigmoid(c + c * c) ** 2).sum()


def response_norm(x):
    return x / (2 + 1e-4 * (5 / x.shape[1]) * (x ** 2).sum(1, keepdim=True)) ** 0.75


def standardised(x):
    over = (0, 2, 3) if x.dim() == 4 else (0,)
    mean, variance = x.mean(over, keepdim=True), x.var(over, unbiased=False, keepdim=True)
    return (x - mean) / torch.sqrt(variance + 1e-5)


def alexnet(W, normalise=lambda x: x):
    """The small one, without dropout."""
    x = chirp((3, 32, 32, 4), 60).permute(3, 0, 1, 2)
    x = F.max_pool2d(response_norm(F.relu(convolve(normalise(x), W[0], 5, padding=2))), 3, 2)
    x = F.max_pool2d(response_norm(F.relu(convolve(normalise(x), W[1], 5, padding=2))), 3, 2)
    x = F.relu(convolve(normalise(x), W[2], 3, padding=1))
    x = F.relu(convolve(normalise(x), W[3], 3, padding=1))
    x = F.max_pool2d(F.relu(convolve(normalise(x), W[4], 3, padding=1)), 3, 2)
    x = F.relu(affine(normalise(x), W[5]))
    x = F.relu(affine(normalise(x), W[6]))
    penalty = 5e-4 / 2 * sum((w ** 2).sum() for w in W)
    return F.cross_entropy(affine(normalise(x), W[7]), torch.arange(4)) + penalty


def alexnet_normalise(W):
    return alexnet(W, standardised)


ALEXNET = ((16, 76), (48, 401), (64, 433), (64, 577), (48, 577), (256, 433), (256, 257), (10, 257))

NETWORKS = (
    (lenet5, ((6, 26), (16, 151), (120, 257), (84, 121), (10, 85))),
    (mlp, ((7, 7), (4, 8))),
    (lstm, ((20, 8), (1, 6))),
    (rnn, ((5, 8), (1, 6))),
    (mixed, ((3, 19), (3, 37))),
    (logistic, ((4, 7),)),
    (normalised, ((3, 19), (3, 2), (5, 37), (5, 2))),
    (tied, ((11, 4), (12, 7))),
    (shapes, ((6, 7), (6, 7))),
    (alexnet, ALEXNET),
    (alexnet_normalise, ALEXNET),
)

for network, shapes in NETWORKS:
    total = sum(rows * columns for rows, columns in shapes)
    theta = chirp((total,), 0.08) if shapes is ALEXNET else wave((total,), 0.3, 1.3, 0.5)
    theta.requires_grad_()
    v = wave((total,), 1, 0.9, 1.2)
    matrices, at = [], 0
    for rows, columns in shapes:
        matrices.append(theta[at:at + rows * columns].reshape(rows, columns))
        at += rows * columns
    loss = network(matrices)
    gradient, = torch.autograd.grad(loss, theta, create_graph=True)
    product, = torch.autograd.grad(gradient, theta, v)
    step = max(1, total // ENTRIES)
    print(network.__name__, total, f"{loss.item():.17g}")
    for i in range(0, total, step):
        print(i, f"{gradient[i].item():.17g}", f"{product[i].item():.17g}")
