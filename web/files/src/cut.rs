//! A film is cut: what of it is sent from a time on, as the file reader finds it.

use mp4::{Cut, Cutter, Step};

/// How the reader's work on a file went.
#[derive(Debug)]
pub enum CutOutcome {
    Cut(Option<Cut>),
    Refused(mp4::Error),
    Changed,
    Failed,
}

/// Cuts content in memory.
pub fn cut_memory(content: &[u8], mut cutter: Cutter) -> CutOutcome {
    loop {
        match cutter.poll() {
            Ok(Step::Read(range)) => match content.get(range.start as usize..range.end as usize) {
                Some(bytes) => cutter.on_read(bytes.to_vec()),
                None => return CutOutcome::Failed,
            },
            Ok(Step::Whole) => return CutOutcome::Cut(None),
            Ok(Step::Cut(cut)) => return CutOutcome::Cut(Some(cut)),
            Err(why) => return CutOutcome::Refused(why),
        }
    }
}
