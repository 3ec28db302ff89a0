//! What a target's path is: the same for both, or refused by both.

use crate::process::{Folder, exchange};
use random::SplitMix64;
use semantics::path::normalise;

const PORT: u16 = 18_715;

#[test]
fn random_paths_are_what_nginx_makes_of_them() {
    const PIECES: [&str; 20] = [
        "/", "/", "/", ".", "..", "a", "%2e", "%2E%2e", "%2f", "%41", "%3f", "%23", "%25", "%20", "%", "%0", "%00",
        "\\", "%c3%a9", "+",
    ];
    let Some(folder) = Folder::new("paths") else { return };
    let servers = format!("server {{ listen 127.0.0.1:{PORT}; location / {{ return 200 \"$uri\"; }} }}\n");
    let nginx = folder.start(&servers, PORT);
    let mut random = SplitMix64::new(0xbf58_476d_1ce4_e5b9);
    let (mut refused, mut taken) = (0, 0);
    let mut stream = nginx.connect();
    for _ in 0..900 {
        let count = random.below(7);
        let raw: String = ["/"].into_iter().chain((0..count).map(|_| PIECES[random.below(PIECES.len())])).collect();
        let mut path = b"/".to_vec();
        let mut rest = Vec::new();
        let ours = normalise(raw.as_bytes(), &mut rest).ok().map(|()| {
            path.append(&mut rest);
            path
        });
        let (status, body) = exchange(&mut stream, "a", raw.as_bytes());
        let theirs = (status == 200).then_some(body);
        assert_eq!(ours, theirs, "{raw}: {status}");
        if ours.is_none() {
            assert_eq!(status, 400, "{raw}");
            // nginx closes the connection then.
            stream = nginx.connect();
        }
        refused += usize::from(ours.is_none());
        taken += usize::from(ours.is_some());
    }
    assert!(refused > 100 && taken > 300, "{refused} refused, {taken} taken");
}
