"""The planted bugs of the server (server)."""
from planted_cache_bugs import Bug

SERVER_BUGS = [
    # The queue of the text threads.
    Bug("new connections with small messages delay a large message for ever", "server/session/text_pool.cpp",
        "virtual_time_ += (CostOf(item.load) + num_lines - 1) / num_lines;", "(void)num_lines;", test="text_pool_test"),
    Bug("a small message of a new connection waits for the large messages of all other connections", "server/session/text_pool.cpp",
        "virtual_time_ += (CostOf(item.load) + num_lines - 1) / num_lines;", "virtual_time_ += CostOf(item.load) + 0 * num_lines;",
        test="text_pool_test"),
    Bug("connections share the text threads by the number of messages, not by bytes", "server/session/text_pool.cpp",
        "return load.num_bytes + load.num_tasks * TextPool::kCostPerTask;", "return load.num_tasks * TextPool::kCostPerTask;",
        test="text_pool_test"),
]
