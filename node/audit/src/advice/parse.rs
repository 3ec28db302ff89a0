//! From files to settings.

use super::form::{form, of_form};
use super::manifest::manifest;
use super::setting::{AdviceError, FileForm, LONGEST, Setting};

/// More settings of one file are refused: each is compared with all others.
const MOST: usize = 5_000;

/// Reads a file's settings; what kind it is, its name and content tell.
///
/// # Errors
/// [`AdviceError`], which names file and line.
pub fn parse(file: &str, text: &str) -> Result<Vec<Setting>, AdviceError> {
    if text.len() > LONGEST {
        return Err(AdviceError::TooLong(file.to_owned()));
    }
    let form = form(file, text).ok_or_else(|| AdviceError::UnknownForm(file.to_owned()))?;
    let settings = match form {
        FileForm::Manifest => manifest(file, text)?,
        form => of_form(form, file, text)?,
    };
    match settings.get(MOST) {
        Some(first) => Err(AdviceError::Line {
            file: file.to_owned(),
            line: first.line,
            why: "one setting more than is judged at once",
        }),
        None => Ok(settings),
    }
}
