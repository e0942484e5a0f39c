"""Time that pre-training of published sizes would take on 8, 64 and 512 GPUs, simulated; needs no GPU.

    python -m benchmarks.scale [--cards 8 64 512]

An update costs operations (the formulas below, which give the committed counts of ``benchmarks/results/launches``),
divided by what one H100 was measured to do of them, and the exchange of gradients over the links of a machine of eight
and between machines. Times of links are the least that is possible: rings at full bandwidth, without latency. The batch
of an update stays that of the paper, so that each card has the less to do the more there are.

With DDP, gradients of four bytes are reduced in a ring, which carries 2 (n - 1) / n of them (Patarasuk and Yuan 2009,
"Bandwidth optimal all-reduce algorithms"): scattered and gathered inside each machine, and in between by all machines.
With FSDP, parameters of two bytes are gathered twice, forward and backward, and gradients of four are scattered (Zhao
et al. 2023, arXiv 2304.11277, section 3). The exchange of DDP is hidden behind the backward pass, two thirds of the
operations, as far as it is not longer.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

from benchmarks.launches import HOST_SECONDS, PEAK, RESULTS
from benchmarks.tables import table

#: Measured 26 Nov 2026, one H100, torch 2.11.0+cu130, compiled: the share of ``PEAK`` that a Transformer big reached,
#: and seconds of sound a second of a speech translator (12+6, 512/2048) in batches of 3,200 s.
TEXT_SHARE, SPEECH_RATE = 0.45, 24_000.0
#: Of NVIDIA's data sheet of the V100: operations a second in fp16.
PEAK_V100 = 125e12
#: GPUs of a machine.
MACHINE = 8
#: Parts of an update's operations that are behind the loss: gradients of inputs and of weights.
BACKWARD = 2 / 3
#: Beyond this number of cards nothing is looked for.
MOST = 1 << 16


@dataclass(frozen=True)
class Network:
    """Links, in bytes a second and direction: of each card inside a machine, and of a whole machine to others."""

    name: str
    inside: float
    between: float


NVLINK = 450e9
NETWORKS = [
    Network("InfiniBand, 400 Gb/s a card", NVLINK, 8 * 400e9 / 8),
    Network("InfiniBand, 400 Gb/s a machine", NVLINK, 400e9 / 8),
    Network("Ethernet, 100 Gb/s a machine", NVLINK, 100e9 / 8),
]


@dataclass(frozen=True)
class Job:
    """Pre-training as a paper has it.

    Attributes:
        name: of the model.
        parameters: that learn.
        flop: operations of an update, all cards together.
        launches: of an update on a card; the host needs ``HOST_SECONDS`` for each.
        updates: how many.
        rate: operations a second of an H100 on such layers.
        cards: V100s of the paper.
        days: that they took.
    """

    name: str
    parameters: float
    flop: float
    launches: float
    updates: int
    rate: float
    cards: int
    days: float


def layer_flop(width: int, feedforward: int, *, crosses: bool = False) -> float:
    """Return operations a token of the products with weights of a layer, forward and backward: six a parameter."""
    return 6 * ((8 if crosses else 4) * width**2 + 2 * width * feedforward)


def attention_flop(width: int, keys: float) -> float:
    """Return operations a query of the products with ``keys`` keys and their values, forward and backward."""
    return 3 * 2 * 2 * width * keys


def encoder_flop(layers: int, width: int, feedforward: int, length: float) -> float:
    """Return operations a token of an encoder that reads texts of a length, forward and backward."""
    return layers * (layer_flop(width, feedforward) + attention_flop(width, length))


def decoder_flop(layers: int, width: int, feedforward: int, length: float, vocabulary: int) -> float:
    """Return operations a token of a decoder over a text of the same length, which sees half of its own."""
    attention = attention_flop(width, length / 2) + attention_flop(width, length)
    return layers * (layer_flop(width, feedforward, crosses=True) + attention) + 6 * width * vocabulary


def convolutions_flop() -> float:
    """Return operations a second of sound of wav2vec 2.0's convolutions (Baevski et al. 2020, section 4.2)."""
    rate, channels, products = 16000.0, 1, 0.0
    for kernel, stride in [(10, 5), *[(3, 2)] * 4, *[(2, 2)] * 2]:
        rate /= stride
        products += rate * kernel * channels * 512
        channels = 512
    return 6 * products


def wav2vec2_large() -> Job:
    """wav2vec 2.0 large on Libri-Light: Baevski et al. 2020 (arXiv 2006.11477), section 4.2."""
    batch = 128 * 1.2e6 / 16000  # seconds; a crop has 20
    frames = 16000 / 320
    positions = frames * 6 * 1024 * 128 * 1024 / 16  # a convolution of 128 frames in 16 groups
    second = convolutions_flop() + positions + frames * encoder_flop(24, 1024, 4096, 20 * frames)
    counted = committed("gpu_speech_medium_compiled")
    rate = SPEECH_RATE * counted["gflop"] * 1e9 / 400  # of 400 s
    launches = counted["launches"] / 18 * 24
    return Job("wav2vec 2.0 large", 317.4e6, batch * second, launches, 600_000, rate, 128, 5.2)


def mbart25(tokens: float, name: str) -> Job:
    """mBART25: Liu et al. 2020 (arXiv 2001.08210), section 2.2; ``tokens`` of an update on either side."""
    flop = encoder_flop(12, 1024, 4096, 512) + decoder_flop(12, 1024, 4096, 512, 250_027)
    launches = committed("gpu_text_big_compiled")["launches"] / 12 * 24
    return Job(name, 610.9e6, tokens * flop, launches, 500_000, TEXT_SHARE * PEAK, 256, 17.5)


def committed(name: str) -> dict[str, float]:
    """Return the sums of a committed count: launches, GFLOP."""
    return json.loads((Path(RESULTS) / f"{name}.json").read_text(encoding="utf-8"))["total"]


def jobs() -> list[Job]:
    """Return what is simulated."""
    a_card = mbart25(256 * 128e3, "mBART25, 128 K tokens a card")
    return [wav2vec2_large(), a_card, mbart25(256 * 24e3, "mBART25, 24 K tokens a card")]


def scattered(size: float, cards: int, network: Network) -> float:
    """Return seconds in which ``size`` bytes of each card are summed, each card keeping its part; or are gathered."""
    inside, machines = min(cards, MACHINE), -(-cards // MACHINE)
    return (inside - 1) / inside * size / network.inside + (machines - 1) / machines * size / network.between


def reduced(parameters: float, cards: int, network: Network) -> float:
    """Return seconds of DDP's exchange: gradients are scattered and gathered."""
    return 2 * scattered(4 * parameters, cards, network)


def sharded(parameters: float, cards: int, network: Network) -> float:
    """Return seconds of FSDP's exchange in an update of one pass."""
    return 2 * scattered(2 * parameters, cards, network) + scattered(4 * parameters, cards, network)


def computing(job: Job, cards: int) -> float:
    """Return seconds in which the cards compute an update."""
    return job.flop / job.rate / cards


def step(job: Job, cards: int, network: Network) -> float:
    """Return seconds of an update with DDP, exchanged while it is computed backward, or that the host needs."""
    compute, exchange = computing(job, cards), reduced(job.parameters, cards, network)
    device = (1 - BACKWARD) * compute + max(BACKWARD * compute, exchange)
    return max(device, job.launches * HOST_SECONDS)


def takes_over(job: Job, network: Network, share: float) -> int | None:
    """Return from how many cards on, in whole machines, DDP's exchange is longer than a share of computing."""
    for cards in range(MACHINE, MOST + 1, MACHINE):
        if reduced(job.parameters, cards, network) > share * computing(job, cards):
            return cards
    return None


def implied(job: Job) -> float:
    """Return operations a second of a V100 that the paper's time means."""
    return job.flop * job.updates / job.cards / (job.days * 86400)


def written(job: Job, cards: list[int]) -> str:
    """Write tables of a job."""
    v100 = implied(job)
    lines = [
        f"{job.name}: {job.flop / 1e15:,.2f} PFLOP an update, {job.updates:,} updates; the paper: {job.cards} V100, "
        f"{job.days:g} days, which are {v100 / 1e12:.1f} TFLOP/s each, {v100 / PEAK_V100:.0%} of their peak; "
        f"here {job.rate / 1e12:.0f} TFLOP/s of an H100",
        "",
    ]
    rows = [["", *(f"{number} cards" for number in cards), "exchange > backward pass", "exchange > computing"]]
    rows.append(["computing, ms", *(f"{1e3 * computing(job, number):,.0f}" for number in cards), "", ""])
    rows.append(["host, ms", *[f"{1e3 * job.launches * HOST_SECONDS:,.0f}"] * len(cards), "", ""])
    for network in NETWORKS:
        found = [takes_over(job, network, share) for share in (BACKWARD, 1.0)]
        limits = [f"from {one:,}" if one else f"not up to {MOST:,}" for one in found]
        for kind, exchange in (("DDP", reduced), ("FSDP", sharded)):
            seconds = (1e3 * exchange(job.parameters, number, network) for number in cards)
            ends = limits if kind == "DDP" else ["", ""]
            rows.append([f"{network.name}: {kind}, ms", *(f"{one:,.0f}" for one in seconds), *ends])
        days = (step(job, number, network) * job.updates / 86400 for number in cards)
        rows.append([f"{network.name}: days", *(f"{one:,.1f}" for one in days), "", ""])
    return "\n".join([*lines, *table(rows), ""])


def main() -> None:
    """Print what is found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cards", type=int, nargs="+", default=[8, 64, 512])
    for job in jobs():
        print(written(job, parser.parse_args().cards))


if __name__ == "__main__":
    main()
