"""Many clients at once, more than the server can do: no answer is lost or mixed up, and nothing piles up."""

import asyncio
import os
import time

import pytest

pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx2")
pytestmark = pytest.mark.slow

SECONDS, CLIENTS = 20, 200
WORDS = "one two three four five six".split()


def resident():
    """The bytes of this process, in which the server runs."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")
def test_two_hundred_clients_for_a_while(serving):
    async def load(address):
        limits = httpx.Limits(max_connections=CLIENTS)
        async with httpx.AsyncClient(base_url=address, timeout=120, limits=limits) as client:

            async def ask(words):
                body = {"q": words, "source": "en", "target": "de"}
                while (answer := await client.post("/translate", json=body)).status_code == 429:
                    assert int(answer.headers["retry-after"]) >= 1
                    refused.append(1)
                    await asyncio.sleep(0.2)
                assert answer.status_code == 200, answer.text
                return answer.json()["translatedText"]

            texts = [" ".join(WORDS[n % 6 : n % 6 + 1 + n % 2]) for n in range(12)]
            expected = {text: await ask(text) for text in texts}
            assert len({*expected.values()}) > 3
            refused.clear()
            sizes, took, until = [], [], time.monotonic() + SECONDS

            async def one(number):
                while time.monotonic() < until:
                    text = texts[number % len(texts)]
                    begun = time.monotonic()
                    assert await ask(text) == expected[text]
                    took.append(time.monotonic() - begun)
                    number += 7

            async def watch():
                while time.monotonic() < until:
                    sizes.append(resident())
                    await asyncio.sleep(1)

            await asyncio.gather(watch(), *(one(number) for number in range(CLIENTS)))
            return sizes, took

    refused = []
    with serving(requests=CLIENTS // 2, requests_per_client=CLIENTS, characters=100) as address:
        sizes, took = asyncio.run(load(address))
        ready = httpx.get(f"{address}/ready").status_code
    assert ready == 200 and refused, "the server was never full"
    assert len(took) > CLIENTS
    assert max(sizes[len(sizes) // 2 :]) - sizes[len(sizes) // 2] < 100e6, sizes


def test_one_client_leaves_room_for_others(serving):
    async def ask(address):
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            body = {"q": "one two", "source": "en", "target": "de"}
            first = [client.post("/translate", json=body) for _ in range(12)]
            codes = [answer.status_code for answer in await asyncio.gather(*first)]
            headers = {"Authorization": "Bearer another"}
            return codes, (await client.post("/translate", json=body, headers=headers)).status_code

    with serving(requests_per_client=3, wait=0.5) as address:
        codes, other = asyncio.run(ask(address))
    assert {*codes} == {200, 429} and codes.count(200) >= 3 and other == 200
