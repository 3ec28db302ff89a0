//! Results of our own measurements, of this version and of earlier ones, by the one reader of them.

use crate::Target;
use results::{SidesCompared, read_text, unlike};

pub(crate) const TARGET: Target = Target {
    name: "results",
    about: "a result of ours is refused with a reason, or is one thing: compared with itself, nothing changed",
    run,
    seeds,
    dictionary: &[
        b"\"kind\": \"load\"",
        b"\"schema\": 1",
        b"\"complete\": false",
        b"\"verdict\": {\"word\": \"PARTIAL\", \"reasons\": [\"x\"]}",
        b"\"environment\": {}",
        b"\"setup\": {}",
        b"\"throughput\": {}",
        b"\"littles_law\": {}",
        b"\"objectives\": []",
        b"\"found\": {}",
        b"\"rows\": [{}]",
        b"\"measured\": {\"runs\": []}",
        b"\"zero_loss\": true",
        b"\"result\": {}",
        b"\"runs\": []",
        b"\"results\": []",
        b"\"latency_definition\": \"\"",
        b"\"devices\": [{}]",
        b"\"points\": [{}]",
        b"\"experiment\": {}",
        b"\"arms\": [{}]",
        b"\"cores\": [{}]",
        b"\"threshold_nanos\": 1",
        b"\"ports\": []",
        b"\"mode\": \"io\"",
        b"\"at\": 1",
        b"\"counts\": {}",
        b"null",
        b"[]",
        b"{}",
        b"-1",
        b"1e308",
        b"1e-308",
        b"18446744073709551615",
        b",",
        b"\n",
    ],
    test_runs: 3_000,
    max_len: 4_000,
};

fn run(input: &[u8]) {
    let Ok(text) = core::str::from_utf8(input) else { return };
    let result = match read_text("x", text) {
        Ok(result) => result,
        Err(error) => return assert!(!error.0.trim().is_empty()),
    };
    for figure in &result.figures {
        assert!(figure.value.is_finite(), "{figure:?}");
    }
    let one = [result];
    assert!(unlike(&one, &one).is_empty(), "{text}");
    match SidesCompared::of(&one, &one) {
        Ok(sides) => assert!(sides.figures.iter().all(|figure| !figure.differs()), "{:?}", sides.figures),
        Err(error) => assert!(!error.0.is_empty()),
    }
}

fn seeds() -> Vec<Vec<u8>> {
    [
        &include_bytes!("../../../../lab/judge/tests/fixtures/planted/own-verdict.json")[..],
        include_bytes!("../../../../lab/judge/tests/fixtures/planted/load-untrusted.json"),
        b"{\"setup\": {\"path\": \"/\", \"connections\": 4}, \"throughput\": {\"requests\": 9, \"rate\": 3.0}, \
          \"latency\": {\"samples\": 9, \"p99_ns\": 5}, \"littles_law\": {}}",
        b"{\"setup\": {\"up_streams\": 0}, \"down\": {\"bits_per_second\": 1.0}}",
        b"{\"objectives\": [\"p99 < 1 ms\"], \"found\": {\"rate\": 5.0, \"missed\": null}}",
        b"{\"rows\": [{\"procs\": 1, \"connections\": 2, \"rps_avg\": 3.0}]}",
        b"{\"found\": [], \"highest_sent\": 9.0}",
        b"{\"results\": [], \"latency_definition\": \"\"}",
        b"{\"devices\": [{\"device\": \"wire\", \"mrr\": 3.0}], \"bytes\": 64}",
        b"{\"points\": []}",
        b"{\"ports\": [], \"mode\": \"io\", \"cycles_per_packet\": 60.0}",
        b"{\"cores\": [{\"core\": 1, \"gaps\": 2}], \"threshold_nanos\": 2000}",
        b"{\"experiment\": {}, \"arms\": [], \"verdict\": {\"word\": \"PARTIAL\", \"reasons\": [\"few runs\"]}}",
        b"{\"at\": 1, \"counts\": {}}\n{\"at\": 2, \"counts\": {\"a\": 3}}\n",
    ]
    .map(<[u8]>::to_vec)
    .into()
}
