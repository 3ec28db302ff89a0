//! Settings, conditions and expectations, of results that are planted.

use super::climb::{COST, DRY};
use super::*;

fn settings() -> Settings {
    toml::from_str("").expect("all have defaults")
}

fn media(settings: &Settings) -> Media {
    Media::new(settings).expect("they make sense")
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    assert!(settings().check().is_ok());
    for bad in [
        Settings { streams: Vec::new(), ..settings() },
        Settings { streams: vec![0], ..settings() },
        Settings { streams: vec![100, 100], ..settings() },
        Settings { streams: vec![20_000], ..settings() },
        Settings { mbit: f64::NAN, ..settings() },
        Settings { buffer_milliseconds: 0, ..settings() },
        Settings { lead_seconds: 1, ..settings() },
        Settings { seconds: 1, ..settings() },
        Settings { memory_mib: 7, ..settings() },
        Settings { times: 0, ..settings() },
        Settings { servers: Vec::new(), ..settings() },
        Settings { transports: Vec::new(), ..settings() },
    ] {
        let why = bad.check().expect_err("it makes no sense").to_string();
        assert!(why.starts_with("media: write streams"), "{bad:?}");
    }
}

#[test]
fn settings_are_written_as_they_are_read() {
    let text = "streams = [2, 4]\nservers = [\"nginx\", \"af-xdp\"]\ntransports = [\"plain\"]\n\
                nginx-reads = \"directio\"\nplayers = \"bypass\"\n";
    let read: Settings = toml::from_str(text).expect("it is right");
    assert_eq!(read.servers, [FilmServer::Nginx, FilmServer::AfXdp]);
    let again: Settings = toml::from_str(&toml::to_string(&read).expect("it is written")).expect("it is right");
    assert_eq!(again, read);
    assert!(toml::from_str::<Settings>("servers = [\"apache\"]").is_err());
    // Half of the lead is for connections, and all of it is waited for.
    let words = Settings { lead_seconds: 5, mbit: 0.5, ..read }.words(Path::new("list"));
    let has = |word: &str| words.iter().any(|one| one == word);
    assert!(has("--stream=500kbit") && has("--ramp=2500ms") && has("--warmup=2500ms") && has("--buffer=1000ms"));
}

/// What has the page cache of the whole machine is told apart from what has a part of it.
#[test]
fn a_page_cache_without_a_limit_is_another_condition() {
    let mut media = media(&settings());
    media.group = Ok(());
    let memory = |media: &Media, name: &str| {
        let arms = media.arms();
        arms.iter().find(|arm| arm.name == name).expect("it is there").conditions["memory for films"].clone()
    };
    assert_eq!(memory(&media, "nginx, TLS"), memory(&media, "Nearside, memif, TLS"));
    media.group = Err("no control groups".to_owned());
    assert_eq!(memory(&media, "nginx, TLS"), "all of the machine");
    assert_eq!(memory(&media, "Nearside, memif, TLS"), "1024 MiB");
    assert!(media.notes().iter().any(|note| note.contains("not limited (no control groups)")));
    assert_eq!(media.arms().len(), 10);
    let curves = media.curves();
    assert_eq!(curves.iter().map(|curve| curve.arms.len()).collect::<Vec<_>>(), [6, 4]);
}

/// An arm's runs with these costs of the steps: percent of a core for each Gbit/s, and streams that ran dry.
fn arm(name: &str, steps: &[(u32, f64, f64)]) -> ArmResults {
    let mut run = Run::default();
    for (streams, cost, dry) in steps {
        run.figures.insert(of_step(*streams, COST), *cost);
        run.figures.insert(of_step(*streams, DRY), *dry);
        if *dry == 0.0 {
            run.figures.insert(KEPT.to_owned(), f64::from(*streams) * 0.005);
        }
    }
    let (repeats, left_out) = (None, None);
    ArmResults { name: name.to_owned(), repeats, conditions: BTreeMap::new(), left_out, runs: vec![run] }
}

#[test]
fn sides_are_compared_at_the_largest_step_that_both_held() {
    let media = media(&Settings { transports: vec![FilmTransport::Plain], ..settings() });
    let arms = [
        arm("nginx, plain", &[(50, 40.0, 0.0), (100, 30.0, 0.0), (200, 20.0, 1.0)]),
        arm("Nearside, kernel sockets, plain", &[(50, 10.0, 0.0), (100, 25.0, 0.0), (200, 20.0, 0.0)]),
        arm("Nearside, memif, plain", &[(50, 30.0, 0.0), (100, 20.0, 0.0), (200, 5.0, 0.0)]),
    ];
    let checks = media.checks(&arms);
    let found = |what: &str| {
        let check = checks.iter().find(|check| check.what.starts_with(what) && check.what.contains("beside"));
        check.map(|check| (check.found.clone(), check.kept)).expect("it is checked")
    };
    assert_eq!(found("Nearside, kernel sockets, plain"), ("1.20 at 100 streams".to_owned(), Some(true)));
    assert_eq!(found("Nearside, memif, plain"), ("1.50 at 100 streams".to_owned(), Some(false)));
    assert!(checks.iter().any(|check| check.what == "nginx, plain: a step holds" && check.found == "0.500 Gbit/s"));
    // Of what was not measured, or never held, there is no telling.
    let dry = [arm("nginx, plain", &[(50, 40.0, 2.0)]), arm("Nearside, memif, plain", &[(50, 30.0, 0.0)])];
    let checks = media.checks(&dry);
    let kept: Vec<Option<bool>> = checks.iter().map(|check| check.kept).collect();
    assert_eq!(kept, [Some(true), Some(false), None, Some(true), None], "{checks:?}");
}

/// What is called the kernel's and was not sealed by it counts only in part.
#[test]
fn who_sealed_is_told_of_what_is_the_kernels_to_seal() {
    let no = || Err("no such file".to_owned());
    for (before, after, told) in [
        (Ok(3), Ok(7), "the kernel, on 4 connections"),
        (Ok(3), Ok(3), "the server itself: the kernel was not asked to"),
        (Ok(3), no(), "not known: no such file"),
        (no(), Ok(3), "not known: no such file"),
    ] {
        let mut run = Run::default();
        tell_of_sealer(&mut run, before, after);
        let reasons = run.verdict.map(|verdict| (verdict.word, verdict.reasons));
        let partial = ("PARTIAL".to_owned(), vec![format!("sealed by: {told}")]);
        assert_eq!(reasons, (!told.starts_with("the kernel")).then_some(partial));
        assert_eq!(run.details["sealed by"], told);
    }
}

#[test]
fn what_the_kernel_sealed_is_read() {
    let stat = "TlsCurrTxSw                     \t1\nTlsTxSw                         \t3\nTlsTxDevice                     \t4\n";
    assert_eq!((connections_sealed(stat), connections_sealed("")), (7, 0));
}
