//! Short ways are held against the general ones: whoever alters what one of
//! them leaves is told of it, with the connection; and looking on alters
//! nothing.

use sim::shadow::{Plant, Tampering};
use sim::world::World;
use sim::{Outcome, Scenario, simulate, simulate_bare, simulate_silos};
use stack::shadow::Way;
use std::collections::BTreeMap;

/// Seeds looked at until each plant is found: those first where most are found, in little time.
const SEEDS: [u64; 16] = [4, 1, 3, 0, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// What is planted where, and what is said of it.
const PLANTS: [(Way, Tampering, &str); 27] = [
    (Way::Light, Tampering::RoundTrip, "rtt Rtt"),
    (Way::Light, Tampering::Acknowledgement, "flags"),
    (Way::Light, Tampering::Told, "the application is told"),
    (Way::Light, Tampering::Sent, "drained: true"),
    (Way::Light, Tampering::Counted, "segments_in"),
    (Way::LightSealed, Tampering::RoundTrip, "rtt Rtt"),
    (Way::LightSealed, Tampering::Told, "the application is told"),
    (Way::LightSealed, Tampering::Counted, "segments_in"),
    (Way::Expected, Tampering::RoundTrip, "rtt Rtt"),
    (Way::Expected, Tampering::Told, "the application is told"),
    (Way::Orderly, Tampering::Nagle, "flags"),
    (Way::Orderly, Tampering::Finished, "finished: true"),
    (Way::Steady, Tampering::RoundTrip, "rtt Rtt"),
    (Way::Steady, Tampering::Sent, "drained: true"),
    (Way::Steady, Tampering::Counted, "segments_in"),
    (Way::SendLight, Tampering::RoundTrip, "rtt Rtt"),
    (Way::SendLight, Tampering::Window, "frames ["),
    (Way::SendSealed, Tampering::RoundTrip, "rtt Rtt"),
    (Way::SendSealed, Tampering::Window, "frames ["),
    (Way::SendSealed, Tampering::Cut, "frames"),
    (Way::SendFew, Tampering::RoundTrip, "rtt Rtt"),
    (Way::SendFew, Tampering::Cut, "frames"),
    (Way::SendSteady, Tampering::RoundTrip, "rtt Rtt"),
    (Way::SendSteady, Tampering::Cut, "frames"),
    (Way::SendOrderly, Tampering::Cut, "frames"),
    (Way::SendOpening, Tampering::Window, "frames [74 bytes"),
    (Way::Build, Tampering::Window, "frames"),
];

fn run(seed: u64, plant: Option<Plant>) -> Outcome {
    World::shadowed(&Scenario::of(seed), plant).run()
}

/// Whatever is changed in what a short way left is found, and told with the
/// way, the host, both ends of the connection, and both values.
#[test]
fn whatever_is_planted_is_found() {
    for (way, what, said) in PLANTS {
        // A few segments are all that waits about once in a seed; and an orderly end is one, beside
        // others, where nothing was lost of late.
        let after = if matches!(way, Way::SendFew | Way::SendOrderly) { 0 } else { 5 };
        let plant = Plant { way, what, after };
        let drift = format!("{way:?} drifts from the general way on ");
        let is_it = |told: &String| {
            told.starts_with("host ") && told.contains(&drift) && told.contains(" with ") && told.contains(said)
        };
        let mut told = Vec::new();
        let found = SEEDS.into_iter().any(|seed| {
            told.extend(run(seed, Some(plant)).tally.violations);
            told.iter().any(is_it)
        });
        assert!(found, "{plant:?}: {told:#?}");
    }
}

/// A run is the same to the last frame, looked at or not.
#[test]
fn looking_on_changes_nothing() {
    for seed in [1, 9, 23] {
        for silos in [false, true] {
            let watched = if silos { simulate_silos(seed) } else { simulate(seed) };
            assert!(watched.compared.values().sum::<u64>() > 0);
            assert_eq!(Outcome { compared: BTreeMap::new(), ..watched }, simulate_bare(seed, silos), "seed {seed}");
        }
    }
}
