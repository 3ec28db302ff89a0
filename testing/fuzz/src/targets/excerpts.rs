//! What other tools printed, and claims, whole or as articles cut them.

use crate::Target;
use judge::{LONGEST_LINE, judge, read};

pub(crate) const TARGET: Target = Target {
    name: "excerpts",
    about: "a text is refused at a line and with a reason, or has runs, and what is found in it stands in it",
    run,
    seeds,
    dictionary: &[
        b"Running 10s test @ http://a/\n",
        b"Requests/sec:",
        b"Summary:\n",
        b"Latency distribution:\n",
        b"Status code distribution:\n  [200] 5 responses\n",
        b"Concurrency Level: ",
        b"Latencies [mean, 50, max] ",
        b"finished in 1.00s, 5 req/s, 1B/s\n",
        b"requests: ",
        b"Aggregated Function Time : count ",
        b"Nighthawk - A layer 7",
        b"Performance counter stats for",
        b" seconds time elapsed\n",
        b"[  5]   0.00-1.00   sec  1 GBytes  8 Gbits/sec  sender\n",
        b"Connecting to host\n",
        b"12:00:00 CPU %usr %idle\n",
        b"Average: ",
        b"NIC statistics for port 0",
        b"Forward statistics for port 0",
        b"-bursts : ",
        b"CONN RPSavg LAT50\n",
        b"min:0 avg:1 max:2 count:3\n",
        b"http_req_duration",
        b"[[claim]]\nname = \"a\"\n",
        b"{\"end\": {",
        b"> ",
        b"// ",
        b"2022-11-28T12:54:33Z ",
        b"\x1b[1m",
        b"\n",
        b"%",
        b"0",
        b"999999999999999999999",
        b"1e308",
        b"-",
        b"NaN",
    ],
    test_runs: 3_000,
    max_len: 2_000,
};

fn run(input: &[u8]) {
    assert!(input.len() <= LONGEST_LINE);
    let lines = input.split(|byte| *byte == b'\n').count();
    let source = match read("x", input) {
        Ok(source) => source,
        Err(error) => {
            assert!(error.line <= lines && !error.why.is_empty(), "{error}");
            assert!(!error.why.chars().any(is_obeyed), "{error:?}");
            return;
        }
    };
    assert!(!source.runs.is_empty());
    assert!(source.runs.iter().all(|run| !run.name.chars().any(is_obeyed)), "{source:?}");
    // The second is the other side of a comparison.
    for finding in judge(&[source.clone(), source], Some(1e9)) {
        assert!(finding.line <= lines && !finding.says.is_empty(), "{finding:?}");
        // What a terminal would obey is in none.
        let words = [&finding.run, &finding.says, &finding.by, &finding.arithmetic];
        assert!(!words.iter().any(|word| word.chars().any(is_obeyed)), "{finding:?}");
    }
}

/// Messages of TOML and JSON show the place in lines of their own.
fn is_obeyed(char: char) -> bool {
    char.is_control() && char != '\n'
}

/// Names that a terminal would obey: as they stand, and as TOML and JSON write them.
const ODD: [&[u8]; 3] = [
    b"[[claim]]\nname = \"a\\u001b[31mb\"\nsource = \"s\\u0007\"\n\
      quantity = \"q\\u001bz\"\nprinted = [\"7.4\", \"8.4\"]\n",
    b"14:19:39        IFACE   rxpck/s   txpck/s    rxkB/s    txkB/s   rxcmp/s   txcmp/s  rxmcst/s   %ifutil\n\
      14:19:40         e\x1b[31mth\x070      9.00      9.00      9.00      9.00      0.00      0.00      0.00     98.82\n",
    b"[[claim]]\nname = \"a\"\n\"x\\u001b\" = 1\n",
];

/// What is sound to `nearside lab judge`, of each tool and form.
fn seeds() -> Vec<Vec<u8>> {
    macro_rules! sound {
        ($($name:literal),* $(,)?) => {
            vec![$(include_bytes!(concat!("../../../../lab/judge/tests/fixtures/sound/", $name)).to_vec()),*]
        };
    }
    let mut all = sound![
        "ab-one-connection.txt",
        "claims-forwarder.toml",
        "excerpt-forward.txt",
        "excerpt-h2load-two-runs.txt",
        "excerpt-httpperf.txt",
        "excerpt-iperf3-two-runs.txt",
        "excerpt-mmhistogram.txt",
        "excerpt-mpstat-all.txt",
        "excerpt-perf-counters.txt",
        "excerpt-vegeta-two-runs.txt",
        "excerpt-wrk2.txt",
        "fortio.txt",
        "hey-count.txt",
        "k6.txt",
        "nighthawk.txt",
        "oha.txt",
        "perf-ls.txt",
        "sar-dev.txt",
        "testpmd-frames.txt",
        "vegeta.json",
        "wrk-latency.txt",
    ];
    all.extend(ODD.map(<[u8]>::to_vec));
    all
}
