//! `nearside run`.

use crate::args::joined;
use std::ffi::OsString;

/// What stands behind `--` is a program's that is run, and nothing of it is ours to read.
#[test]
fn words_of_another_program_stay_as_they_are() {
    let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
    let typed = words("run --workers -1 -- iperf3 -s -1");
    assert_eq!(joined(typed), words("run --workers=-1 -- iperf3 -s -1"));
}
