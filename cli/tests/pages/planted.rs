//! A result of `nearside demo`, which takes minutes and nginx to measure: its figures are invented.

use serde_json::{Value, json};

/// Percentiles as the demo keeps them.
const PERCENTILES: [f64; 21] = [
    0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 75.0, 80.0, 85.0, 90.0, 95.0, 97.5, 99.0, 99.5, 99.9, 99.95, 99.99,
    99.995, 99.999,
];

/// What `results.json` of the demo's folder holds.
pub fn demo() -> String {
    let scenario = |stage: &str, connections: &str, count: u32| json!({ "stage": stage, "content": "small", "heads": "short", "connections": connections, "count": count });
    let row = |scenario: &Value, contender: &str, rate: f64, micros: f64| {
        let round = |factor: f64| {
            let curve: Vec<f64> =
                PERCENTILES.iter().map(|at| micros * factor * (1.0 + 0.4 / (1.001 - at / 100.0))).collect();
            let share = json!({ "process": 0.98, "system": 0.5, "softirq": 0.3, "others": 0.01 });
            json!({
                "requests_per_second": rate / factor, "response_bytes": 160.0, "errors": 0, "warnings": [],
                "latency": { "curve": curve, "max": 900.0 * micros }, "server": share, "client": share,
                "server_busy": null,
            })
        };
        json!({ "scenario": scenario, "contender": contender, "rounds": [round(0.9), round(1.0), round(1.2)] })
    };
    let (kept, new) = (scenario("one-pair", "keep-alive", 64), scenario("one-pair", "new", 64));
    let shared = scenario("shared-memory", "keep-alive", 1_000);
    let rows = [
        row(&kept, "nginx", 1e5, 500.0),
        row(&kept, "sockets", 1.4e5, 400.0),
        row(&kept, "af-xdp", 4.5e5, 120.0),
        row(&new, "nginx", 1e4, 900.0),
        row(&new, "sockets", 1.2e4, 800.0),
        row(&shared, "nginx", 1.1e5, 480.0),
        row(&shared, "memif", 2.5e6, 20.0),
    ];
    let whole = json!({
        "kind": "demo", "schema": 1, "made": 1_785_000_000_u64, "command": ["nearside", "demo", "--quick"],
        "verdict": { "word": "COMPLETE", "reasons": [] },
        "machine": {
            "processor": "A <processor>", "cores": [0, 1], "virtual_machine": true, "kernel": "6.1.0",
            "memory_mib": 24_000, "system": "Debian 12", "environment": { "microcode": "0x1" },
        },
        "nearside": "0.1.0", "nginx": [{ "version": "1.22.1", "path": "/usr/sbin/nginx" }],
        "configuration": "http {\n    access_log off;\n}\n", "congestion": "cubic", "generator": "bypass",
        "cores": [0, 1], "rounds": 3, "seconds": 2.0, "seed": 1, "percentiles": PERCENTILES, "rows": rows,
        "frames": [15e6, 14e6, 16e6], "left_out": ["testpmd: it is not installed"],
    });
    format!("{whole:#}\n")
}
