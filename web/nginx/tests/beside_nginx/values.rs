//! What stands in a value is text, or wrong, for both; the words are equal.

use crate::process::Folder;
use features::Value;
use random::SplitMix64;

#[test]
fn random_values_are_refused_in_nginxs_words() {
    const PIECES: [&str; 12] = ["$", "{", "}", "$uri", "${uri}", "$1", "x", "-", "_", " ", "$nothing", "${"];
    let Some(folder) = Folder::new("values") else { return };
    let mut random = SplitMix64::new(0xd134_2543_de82_ef95);
    let (mut refused, mut taken) = (0, 0);
    for _ in 0..150 {
        let count = 1 + random.below(4);
        let text: String = (0..count).map(|_| PIECES[random.below(PIECES.len())]).collect();
        let ours = Value::parse(text.as_bytes(), &mut |name| (name == b"uri").then_some(0)).err();
        let theirs = folder.refusal_of_servers(&format!("server {{ return 200 \"{text}\"; }}"));
        // The place stands behind what is said while the file is read.
        let theirs = theirs.map(|said| said.split(" in /").next().unwrap_or_default().to_owned());
        assert_eq!(ours.as_ref().map(ToString::to_string), theirs, "{text}");
        refused += usize::from(ours.is_some());
        taken += usize::from(ours.is_none());
    }
    assert!(refused > 20 && taken > 20, "{refused} refused, {taken} taken");
}
