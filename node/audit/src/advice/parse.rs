//! From files to settings.

use super::form::{form, looks_like, of_form};
use super::lines::{Advice, Fault};
use super::manifest::manifest;
use super::setting::{AdviceError, FileForm, LONGEST, OtherLine, Setting};

/// More settings of one file are refused: each is compared with all others.
const MOST: usize = 5_000;

/// Reads a file; what kind it is, its name and content tell. A line that is no
/// setting costs that line alone.
///
/// # Errors
/// [`AdviceError`], which names file and line, where nothing of the file can be
/// judged.
pub fn read(file: &str, text: &str) -> Result<Advice, AdviceError> {
    if text.len() > LONGEST {
        return Err(AdviceError::TooLong(file.to_owned()));
    }
    if is_fstack(text) {
        let what = "is F-Stack's configuration: nearside import says what becomes of each line";
        return Err(AdviceError::OfOthers { file: file.to_owned(), what });
    }
    let form = form(file, text).ok_or_else(|| AdviceError::UnknownForm {
        file: file.to_owned(),
        like: looks_like(text).and_then(|like| {
            let (line, text) = like.other?;
            Some(OtherLine { form: like.form, line, text: text.to_owned() })
        }),
    })?;
    let advice = match form {
        FileForm::Manifest => manifest(file, text)?,
        form => of_form(form, file, text)?,
    };
    let first = advice.settings.get(MOST).map(|one| one.line);
    match first.or_else(|| advice.faults.get(MOST).map(|(_, one)| one.line)) {
        Some(line) => Err(AdviceError::Line {
            file: file.to_owned(),
            line,
            why: "one setting more than is judged at once".to_owned(),
        }),
        None => Ok(advice),
    }
}

/// Reads a file's settings, of which each line must be one.
///
/// # Errors
/// As [`read`], and for the first line that is no setting.
pub fn parse(file: &str, text: &str) -> Result<Vec<Setting>, AdviceError> {
    let advice = read(file, text)?;
    match advice.faults.into_iter().next() {
        Some((_, Fault { file, line, why, .. })) => Err(AdviceError::Line { file, line, why }),
        None => Ok(advice.settings),
    }
}

/// Whether a text of sections is an f-stack.conf: one for DPDK, with cores or ports.
fn is_fstack(text: &str) -> bool {
    let lines = || text.lines().map(str::trim);
    let own = |line: &str| ["lcore_mask", "port_list", "nb_vdev"].iter().any(|key| line.starts_with(key));
    lines().any(|line| line == "[dpdk]") && lines().any(own)
}
