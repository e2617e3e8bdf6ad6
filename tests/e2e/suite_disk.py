"""Tests the disk cache through the server: restarts, isolation, damaged files, two servers on one folder, and the commands
`incipit cache`."""
import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
import unittest

import grpc
from harness.server import BUNDLED, PROGRAM, Server, default_model, greedy
from incipit.v1 import admin_pb2, inference_pb2_grpc

SIZE = "256MiB"
# By default, a server does not load chunks that it predicts to compute sooner, and waits only a short time for loads. On a
# busy machine, a server of a test could then compute chunks that the test expects to be loaded.
LOADS = ("--tier-load", "always", "--tier-wait-max", "60s")
PROMPT_TOKENS = 400
# The bundled model has 128 tokens in a chunk. The last token of a prompt is always computed.
CHUNK_TOKENS = 128
LOADED_TOKENS = PROMPT_TOKENS // CHUNK_TOKENS * CHUNK_TOKENS


def random_prompt(server, seed, size=PROMPT_TOKENS):
    generator = random.Random(seed)
    return [generator.randrange(3, server.info().vocab_size) for _ in range(size)]


def resident_bytes(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    kib, = (int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
    return kib << 10


def read_metrics(server):
    """Returns all counters that change if the server reads a chunk from the disk, or tries to."""
    loads = [server.metric("incipit_disk_cache_loads_total", result=result)
             for result in ("hit", "error", "late", "cancelled", "staging_full")]
    return loads + [server.metric(f"incipit_disk_cache_{name}") for name in
                    ("read_bytes_total", "loaded_tokens_total", "waits_total", "load_seconds_count")]


def tiers(reply):
    by_tier = reply.usage.cached_tokens_by_tier
    return by_tier.device, by_tier.disk


class DiskCacheCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="incipit-disk-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.cache = self.folder / "cache"

    def server(self, *flags, folder=None, **arguments):
        arguments.setdefault("model", BUNDLED)
        return Server("--disk-cache", str(folder or self.cache), "--disk-cache-size", SIZE, *LOADS, *flags, **arguments)

    def wait_until(self, server, is_true, seconds=30):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if is_true():
                return
            threading.Event().wait(0.02)
        self.fail(f"timeout; state of the disk cache: {self.state(server)}")

    def state(self, server):
        return [name for name in ("starting", "on", "locked", "off")
                if server.metric("incipit_disk_cache_state", state=name) == 1]

    def wait_on(self, server):
        # The state changes when the engine plans a step.
        def is_on():
            server.generate(greedy([5, 6, 7], 1))
            return self.state(server) == ["on"]
        self.wait_until(server, is_on)

    def wait_stored(self, server, num_chunks):
        def is_stored():
            server.generate(greedy([5, 6, 7], 1))
            return server.metric("incipit_disk_cache_stored_chunks_total") >= num_chunks
        self.wait_until(server, is_stored)

    def fill(self, server, *seeds):
        """Generates from one prompt for each seed, and waits until the chunks are on the disk."""
        self.wait_on(server)
        before = server.metric("incipit_disk_cache_stored_chunks_total")
        replies = [server.generate(greedy(random_prompt(server, seed), 8)) for seed in seeds]
        self.wait_stored(server, before + len(seeds) * LOADED_TOKENS // CHUNK_TOKENS)
        return replies


@unittest.skipUnless(BUNDLED.exists(), "models/incipit-tiny is not there")
class DiskCacheTest(DiskCacheCase):
    def test_a_restarted_server_has_its_cache(self):
        with self.server() as server:
            first, other = self.fill(server, 1, 2)
            self.assertEqual(tiers(first), (0, 0))
            server.signal()
            self.assertEqual(server.wait(), 0)
        mode = stat.S_IMODE(self.cache.stat().st_mode)
        self.assertEqual(mode, 0o700)
        with self.server() as server:
            self.wait_on(server)
            prompt = random_prompt(server, 1)
            again = server.generate(greedy(prompt, 8))
            self.assertEqual(tiers(again), (0, LOADED_TOKENS))
            self.assertEqual(again.usage.cached_tokens, LOADED_TOKENS)
            self.assertEqual(again.token_ids, first.token_ids)
            # The blocks are now on the device.
            self.assertEqual(tiers(server.generate(greedy(prompt, 8))), (PROMPT_TOKENS - 1, 0))
            logged = greedy(random_prompt(server, 2), 8)
            logged.output.logprobs = 3
            self.assertEqual(server.generate(logged).token_ids, other.token_ids)
            self.assertEqual(server.metric("incipit_disk_cache_loaded_tokens_total"), 2 * LOADED_TOKENS)
            self.assertEqual(server.metric("incipit_disk_cache_loads_total", result="hit"), 6)

    def test_a_prompt_on_the_device_is_not_read_from_the_disk(self):
        with self.server() as server:
            first, other = self.fill(server, 1, 2)
        with self.server() as server:
            self.wait_on(server)
            for seed in 1, 2:
                self.assertEqual(tiers(server.generate(greedy(random_prompt(server, seed), 8))), (0, LOADED_TOKENS))
            before = read_metrics(server)
            self.assertEqual(before[0], 2 * LOADED_TOKENS // CHUNK_TOKENS)
            for seed, expected in ((1, first), (2, other)) * 3:
                again = server.generate(greedy(random_prompt(server, seed), 8))
                self.assertEqual(tiers(again), (PROMPT_TOKENS - 1, 0))
                self.assertEqual(again.token_ids, expected.token_ids)
            # The metrics are up to date when the next request has ended.
            self.wait_until(server, lambda: server.generate(greedy([5, 6, 7], 1)) and
                            server.metric("incipit_disk_cache_pending", kind="load") == 0)
            self.assertEqual(read_metrics(server), before)

    def test_the_output_does_not_depend_on_the_decision_to_load(self):
        """With the default flags, a server may compute chunks that it predicts to compute sooner than to load."""
        with self.server() as server:
            first, = self.fill(server, 1)
        with self.server("--tier-load", "faster", "--tier-wait-max", "0s") as server:
            self.wait_on(server)
            again = server.generate(greedy(random_prompt(server, 1), 8))
            self.assertIn(tiers(again), [(0, tokens) for tokens in range(0, LOADED_TOKENS + 1, CHUNK_TOKENS)])
            self.assertEqual(again.token_ids, first.token_ids)

    def test_servers_with_other_key_functions_share_a_folder(self):
        with self.server() as server:
            first, = self.fill(server, 1)
        with self.server("--prefix-cache-hash", "xxh3_128") as server:
            self.assertIn("--prefix-cache-hash xxh3_128 is replaced by sha256", server.log())
            self.wait_on(server)
            again = server.generate(greedy(random_prompt(server, 1), 8))
            self.assertEqual(tiers(again), (0, LOADED_TOKENS))
            self.assertEqual(again.token_ids, first.token_ids)
        # The keys in the CBOR format differ from the keys in Incipit's own format.
        with self.server("--prefix-cache-hash", "sha256_cbor") as server:
            self.assertNotIn("is replaced by", server.log())
            self.assertEqual(tiers(self.fill(server, 1)[0]), (0, 0))
        with self.server("--prefix-cache-hash", "xxhash_cbor") as server:
            self.assertIn("is replaced by sha256_cbor", server.log())
            self.wait_on(server)
            self.assertEqual(tiers(server.generate(greedy(random_prompt(server, 1), 8))), (0, LOADED_TOKENS))

    def test_chunks_expire_after_the_time_to_live(self):
        def message(server, seed, seconds):
            request = greedy(random_prompt(server, seed), 8)
            request.cache.retention.ttl.seconds = seconds
            return request
        with self.server() as server:
            self.wait_on(server)
            for seed, seconds in (1, 1), (2, 600):
                server.generate(message(server, seed, seconds))
            self.wait_stored(server, 6)
        time.sleep(2)
        with self.server() as server:
            self.wait_on(server)
            self.assertEqual(tiers(server.generate(message(server, 1, 600))), (0, 0))
            self.assertEqual(tiers(server.generate(message(server, 2, 600))), (0, LOADED_TOKENS))

    def test_a_tenant_has_a_share_of_the_disk(self):
        def count(server, name, **labels):
            return server.metric(f"incipit_disk_cache_{name}_total", **labels)
        with self.server() as server:
            self.fill(server, 1)
            record_bytes = count(server, "written_bytes") / count(server, "stored_chunks")
        # The share has room for 4 chunks, and the disk has 3 chunks of the tenant.
        share = 4.5 * record_bytes / (256 << 20)
        with self.server("--tier-tenant-share-max", f"{share:.6f}") as server:
            self.wait_on(server)
            server.generate(greedy(random_prompt(server, 2), 8))
            self.wait_stored(server, 1)
            self.assertEqual(server.metric("incipit_disk_cache_chunks"), 4)
            self.assertEqual(count(server, "dropped_stores", reason="tenant_share"), 2)

    def test_a_preview_reports_the_tokens_that_would_be_loaded(self):
        with self.server() as server:
            self.fill(server, 1)
        with self.server() as server:
            self.wait_on(server)
            request = admin_pb2.GetLoadRequest()
            request.token_ids.ids.extend(random_prompt(server, 1))
            before = server.admin.GetLoad(request).admission
            self.assertEqual((before.cached_tokens, before.disk_tokens), (0, LOADED_TOKENS))
            server.generate(greedy(random_prompt(server, 1), 8))
            after = server.admin.GetLoad(request).admission
            self.assertEqual((after.cached_tokens, after.disk_tokens), (PROMPT_TOKENS - 1, 0))

    def test_an_evicted_prefix_is_loaded(self):
        # 64 blocks of 16 tokens: each prompt takes 26 blocks.
        with self.server("--kv-blocks", "64", "--prefix-cache-policy", "lru") as server:
            first, *_ = self.fill(server, 1, 2, 3, 4)
            again = server.generate(greedy(random_prompt(server, 1), 8))
            self.assertGreater(tiers(again)[1], 0)
            self.assertEqual(again.token_ids, first.token_ids)

    def test_a_killed_server_loses_little(self):
        server = self.server()
        with server:
            first, = self.fill(server, 1)
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
        with self.server() as server:
            self.wait_on(server)
            again = server.generate(greedy(random_prompt(server, 1), 8))
            self.assertEqual(tiers(again), (0, LOADED_TOKENS))
            self.assertEqual(again.token_ids, first.token_ids)

    def test_tenants_and_salts_share_nothing(self):
        with self.server("--isolate-tenants", "on") as server:
            self.fill(server, 1)
        with self.server("--isolate-tenants", "on") as server:
            self.wait_on(server)
            prompt = random_prompt(server, 1)
            other = server.generate(greedy(prompt, 1), metadata=(("x-tenant-id", "other"),))
            self.assertEqual(tiers(other), (0, 0))
            salted = greedy(prompt, 1)
            salted.cache.salt = "salt"
            self.assertEqual(tiers(server.generate(salted)), (0, 0))
            self.assertEqual(tiers(server.generate(greedy(prompt, 1)))[1], LOADED_TOKENS)

    def copy_of_model(self, name):
        """Returns a copy of the model that the test may change."""
        folder = self.folder / name
        shutil.copytree(BUNDLED, folder)
        for path in folder.iterdir():
            path.chmod(0o600)
        return folder

    def test_different_servers_on_one_folder_share_nothing(self):
        """Starts servers with different keys and values one after the other, twice. Each server finds only its own."""
        weights = self.copy_of_model("weights")
        file, = weights.glob("*.safetensors")
        content = bytearray(file.read_bytes())
        content[-8] ^= 1  # the lowest bit of the mantissa of one weight
        file.write_bytes(content)
        rope = self.copy_of_model("rope")
        config = json.loads((rope / "config.json").read_text())
        config["rope_theta"] = 2 * config.get("rope_theta", 10000.0)
        (rope / "config.json").write_text(json.dumps(config))
        f32, bf16 = ("--kv-dtype", "f32"), ("--kv-dtype", "bf16")
        portable = ("--cpu-isa", "portable")
        variants = [(BUNDLED, portable + f32), (BUNDLED, portable + bf16), (weights, portable + f32), (rope, portable + f32)]
        if "avx2" in pathlib.Path("/proc/cpuinfo").read_text().split():
            variants.append((BUNDLED, ("--cpu-isa", "avx2", *f32)))
        for expected in (0, LOADED_TOKENS):
            for model, flags in variants:
                with self.subTest(model=model.name, flags=flags, expected=expected):
                    with self.server("--disk-cache-size", "2GiB", *flags, model=model) as server:
                        self.wait_on(server)
                        self.assertEqual(tiers(server.generate(greedy(random_prompt(server, 1), 1))), (0, expected))
                        self.wait_stored(server, 0 if expected else LOADED_TOKENS // CHUNK_TOKENS)

    def cancel_at_a_random_time(self, server, prompts, generator, seconds_max):
        """Starts a request, and cancels the request or closes its connection after at most `seconds_max`."""
        closes = generator.random() < 0.2
        channel = server.connect() if closes else None
        stub = inference_pb2_grpc.InferenceStub(channel) if closes else server.inference
        request = greedy(generator.choice(prompts), 20)
        request.output.n = generator.choice((1, 1, 3))
        call = stub.Generate(request)
        threading.Event().wait(generator.random() * seconds_max)
        if closes:
            channel.close()
        else:
            call.cancel()
        try:
            for _ in call:
                pass
        except (grpc.RpcError, ValueError):
            pass

    def test_cancelled_requests_leave_staging_empty(self):
        """Cancels requests whose prefix is on the disk. INCIPIT_DISK_CANCELS is the number of requests."""
        count, num_clients, num_prompts = int(os.environ.get("INCIPIT_DISK_CANCELS", "320")), 16, 12
        with self.server() as server:
            replies = self.fill(server, *range(num_prompts))
        # The cache of the device has room for 2 of 12 prompts, and staging for 5 chunks, which is less than 2 prompts.
        with self.server("--kv-blocks", "64", "--tier-staging", "3MiB", "--tier-wait-max", "1s",
                         "--prefix-cache-policy", "lru") as server:
            self.wait_on(server)
            prompts = [random_prompt(server, seed) for seed in range(num_prompts)]
            # On a busy machine, shorter times would end before the server begins a load.
            begin = time.monotonic()
            server.generate(greedy(prompts[0], 1))
            seconds_max = max(0.01, time.monotonic() - begin)
            resident = []

            def run(client):
                generator = random.Random(client)
                for i in range(count // num_clients):
                    self.cancel_at_a_random_time(server, prompts, generator, seconds_max)
                    if client == 0 and i * 2 in (count // num_clients, count // num_clients - 1):
                        resident.append(resident_bytes(server.process.pid))

            with concurrent.futures.ThreadPoolExecutor(num_clients) as pool:
                list(pool.map(run, range(num_clients)))
            server.wait_until_idle()
            self.wait_until(server, lambda: server.generate(greedy([5, 6, 7], 1)) and
                            server.metric("incipit_disk_cache_pending", kind="load") == 0)
            self.assertEqual(server.metric("incipit_disk_cache_staging_bytes"), 0)
            self.assertGreater(server.metric("incipit_disk_cache_loads_total", result="cancelled"), 0)
            self.assertEqual(self.state(server), ["on"])
            self.assertLess(resident_bytes(server.process.pid) - resident[0], 32 << 20)
            for seed, first in enumerate(replies):
                again = server.generate(greedy(prompts[seed], 8))
                self.assertEqual(again.token_ids, first.token_ids)
            server.wait_until_idle()

    def test_damaged_chunks_are_computed(self):
        with self.server() as server:
            first, = self.fill(server, 1)
        generator = random.Random(7)
        for path in self.cache.rglob("*"):
            if not path.is_file() or path.stat().st_size < 1 << 20:
                continue
            with open(path, "r+b") as file:
                for position in range(4096, path.stat().st_size, 64 << 10):
                    file.seek(position + generator.randrange(4096))
                    byte = file.read(1)
                    file.seek(-1, os.SEEK_CUR)
                    file.write(bytes([byte[0] ^ 0x10]))
        with self.server() as server:
            self.wait_on(server)
            again = server.generate(greedy(random_prompt(server, 1), 8))
            self.assertEqual(tiers(again), (0, 0))
            self.assertEqual(again.token_ids, first.token_ids)

    def test_requests_that_must_not_read_the_cache_load_nothing(self):
        with self.server() as server:
            first, = self.fill(server, 1)
        with self.server() as server:
            self.wait_on(server)
            fresh, scored = (greedy(random_prompt(server, 1), 8) for _ in range(2))
            fresh.cache.skip_read = True
            scored.output.prompt_logprobs = 0
            for request in fresh, scored:
                reply = server.generate(request)
                self.assertEqual(tiers(reply), (0, 0))
                self.assertEqual(reply.token_ids, first.token_ids)
            self.assertEqual(sum(read_metrics(server)), 0)

    def test_a_reset_empties_the_disk_cache(self):
        with self.server() as server:
            self.fill(server, 1)
            server.wait_until_idle()
            server.reset_cache()
            self.assertEqual(tiers(server.generate(greedy(random_prompt(server, 1), 1))), (0, 0))

    def test_a_second_server_takes_over(self):
        with self.server() as first:
            self.fill(first, 1, 2)
            with self.server() as second:
                self.wait_until(second, lambda: second.generate(greedy([5, 6], 1)) and self.state(second) == ["locked"])
                self.assertEqual(tiers(second.generate(greedy(random_prompt(second, 1), 1))), (0, 0))
                first.close()
                self.wait_on(second)
                self.assertEqual(tiers(second.generate(greedy(random_prompt(second, 2), 1)))[1], LOADED_TOKENS)

    def test_chunks_of_a_server_that_had_to_wait_are_stored_at_its_end(self):
        with self.server() as first:
            self.fill(first, 1)
            with self.server() as second:
                self.wait_until(second, lambda: second.generate(greedy([5, 6], 1)) and self.state(second) == ["locked"])
                reply = second.generate(greedy(random_prompt(second, 2), 8))
                first.close()
                self.wait_on(second)
                second.signal()
                self.assertEqual(second.wait(), 0)
                self.assertIn("3 chunks were written to the disk cache after the last request", second.log())
        with self.server() as server:
            self.wait_on(server)
            again = server.generate(greedy(random_prompt(server, 2), 8))
            self.assertEqual(tiers(again), (0, LOADED_TOKENS))
            self.assertEqual(again.token_ids, reply.token_ids)

    def test_without_time_nothing_is_stored_at_the_end(self):
        with self.server() as first:
            self.fill(first, 1)
            with self.server("--tier-drain-timeout", "0s") as second:
                self.wait_until(second, lambda: second.generate(greedy([5, 6], 1)) and self.state(second) == ["locked"])
                second.generate(greedy(random_prompt(second, 2), 8))
                first.close()
                self.wait_on(second)
                second.signal()
                self.assertEqual(second.wait(), 0)
        with self.server() as server:
            self.wait_on(server)
            self.assertEqual(tiers(server.generate(greedy(random_prompt(server, 2), 8))), (0, 0))

    def test_a_folder_that_others_can_read_is_refused(self):
        self.cache.mkdir(mode=0o755)
        self.cache.chmod(0o755)
        with self.assertRaises(AssertionError) as raised:
            self.server()
        self.assertIn(str(self.cache), str(raised.exception))


@unittest.skipUnless(BUNDLED.exists(), "models/incipit-tiny is not there")
class CacheCommandsTest(DiskCacheCase):
    """The commands `incipit cache`."""

    def command(self, *arguments, code=0, **options):
        result = subprocess.run([PROGRAM, "cache", *map(str, arguments)], capture_output=True, timeout=120, **options)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def json(self, command, folder=None, code=0):
        return json.loads(self.command(command, folder or self.cache, "--json", code=code).stdout)

    def stop(self, server):
        server.signal()
        self.assertEqual(server.wait(), 0)

    def test_a_cache_moves_to_another_folder(self):
        with self.server() as server:
            first, _ = self.fill(server, 1, 2)
            self.stop(server)
        contents = self.json("inspect")
        fingerprint, = contents["fingerprints"]
        self.assertEqual(fingerprint["records"], 2 * LOADED_TOKENS // CHUNK_TOKENS)
        self.assertEqual(fingerprint["chunk_tokens"], CHUNK_TOKENS)
        self.assertEqual([prefix["longest_tokens"] for prefix in contents["prefixes"]], [LOADED_TOKENS] * 2)
        self.assertEqual([prefix["hits"] for prefix in contents["prefixes"]], [0, 0])
        self.assertEqual(self.json("verify")["good"], fingerprint["records"])
        archive, other = self.folder / "archive", self.folder / "other"
        self.command("export", self.cache, archive, "--fingerprint", fingerprint["fingerprint"])
        self.assertEqual(stat.S_IMODE(archive.stat().st_mode), 0o600)
        self.command("import", other, archive, "--size", SIZE)
        self.assertEqual(stat.S_IMODE(other.stat().st_mode), 0o700)
        self.assertEqual(self.json("verify", other)["good"], fingerprint["records"])
        with self.server(folder=other) as server:
            self.wait_on(server)
            again = server.generate(greedy(random_prompt(server, 1), 8))
            self.assertEqual(tiers(again), (0, LOADED_TOKENS))
            self.assertEqual(again.token_ids, first.token_ids)
            # The server uses the folder.
            refused = self.command("import", other, archive, "--size", SIZE, code=2)
            self.assertIn(str(other).encode(), refused.stderr)
            self.assertEqual(self.json("verify", other)["damaged"], 0)
            self.stop(server)
        hits = [prefix["hits"] for prefix in self.json("inspect", other)["prefixes"]]
        self.assertEqual(sorted(hits), [0, 1])

    def test_an_archive_passes_through_a_pipe(self):
        with self.server() as server:
            self.fill(server, 1)
            other = self.folder / "other"
            # The server uses the folder that is exported.
            archive = self.command("export", self.cache, "-").stdout
            imported = self.command("import", other, "-", "--size", SIZE, input=archive)
            self.assertIn(b"imported 3 records", imported.stderr)
            shortened = self.command("import", self.folder / "third", "-", "--size", SIZE, code=1, input=archive[:-1])
            self.assertIn(b"not complete", shortened.stderr)

    def test_a_damaged_byte_is_found(self):
        with self.server() as server:
            self.fill(server, 1)
        segment, = self.cache.glob("*.segment")
        with open(segment, "r+b") as file:
            file.seek(4096 + 3000)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        result = self.json("verify", code=1)
        self.assertEqual((result["good"], result["damaged"]), (2, 1))
        damage, = result["damages"]
        self.assertEqual((damage["segment"], damage["index"], damage["reason"]), (segment.name, 0, "checksum"))
        text = self.command("verify", self.cache, code=1).stdout.decode()
        self.assertIn(f"damaged: {segment.name}: record 0: checksum", text)
        exported = self.command("export", self.cache, self.folder / "archive")
        self.assertIn(b"exported 2 records", exported.stderr)

    def test_the_output_has_no_text_and_no_token_ids(self):
        with self.server() as server:
            self.fill(server, 1)
            prompt = random_prompt(server, 1)
        ids = ", ".join(map(str, prompt[:4])).encode()
        for command in ("inspect", "verify"):
            for arguments in ((), ("--json",)):
                output = self.command(command, self.cache, *arguments).stdout
                self.assertNotIn(ids, output)
                self.assertNotIn(ids.replace(b" ", b""), output)


@unittest.skipUnless(default_model(), "no model: models/incipit-tiny is not there")
class DiskCacheFlagsTest(unittest.TestCase):
    def refused(self, *flags):
        with self.assertRaises(AssertionError) as raised:
            Server(*flags)
        return str(raised.exception)

    def test_flags_that_do_not_fit_are_refused_by_name(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("--disk-cache-size", self.refused("--disk-cache", folder))
            self.assertIn("--disk-cache", self.refused("--disk-cache-size", SIZE))
            both = ("--disk-cache", folder, "--disk-cache-size", SIZE)
            self.assertIn("--prefix-cache", self.refused(*both, "--prefix-cache", "off"))
