//! `mp4`, `flv`: films from a time on, by the query.

use crate::row::{DirectiveRow, Refusal, Words};
use crate::rule::{Arguments, Context, ValueForm};
use crate::units::size;
use crate::{Explaining, Feature, FeatureSettings};

/// See the module.
pub(crate) const FEATURE: Feature = Feature {
    directives: &[
        DirectiveRow::new("flv", "flv", ValueForm::Own, |settings, _words| seek(settings, SeekFormat::Flv))
            .within(Context::LOCATION)
            .taking(Arguments::exactly(0))
            .shown("- it takes a film to see it (testing/interop/tests/nginx/films.rs)"),
        DirectiveRow::new("mp4", "mp4", ValueForm::Own, |settings, _words| seek(settings, SeekFormat::Mp4))
            .within(Context::LOCATION)
            .taking(Arguments::exactly(0))
            .shown("- it takes a film to see it (testing/interop/tests/nginx/films.rs)"),
        DirectiveRow::new("mp4", "mp4_buffer_size", ValueForm::Size, |settings, words| {
            settings.seeking.buffer = bytes(words)?;
            Ok(())
        })
        .shown("- it takes a film to see it (testing/interop/tests/nginx/films.rs)"),
        DirectiveRow::new("mp4", "mp4_max_buffer_size", ValueForm::Size, |settings, words| {
            settings.seeking.largest_moov = bytes(words)?;
            Ok(())
        })
        .shown("- it takes a film to see it (testing/interop/tests/nginx/films.rs)"),
        DirectiveRow::new("mp4", "mp4_start_key_frame", ValueForm::Flag, |settings, words| {
            words.flag(&mut settings.seeking.start_key_frame)
        })
        .shown("- it takes a film to see it (testing/interop/tests/nginx/films.rs)"),
    ],
    built_with: &["flv", "mp4"],
    explain: Some(explain),
    ..Feature::NONE
};

/// A format of films that are sent from a time on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeekFormat {
    /// `flv`: a head of a few bytes, and the file from a byte on.
    Flv,
    /// `mp4`: a head that is made for the time, and the media behind it.
    Mp4,
}

/// What is said of films.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seeking {
    /// What the files of the location are. It is not inherited by locations within.
    pub format: Option<SeekFormat>,
    /// `mp4_buffer_size`: bytes that are looked at at once. Default 512 KiB.
    pub buffer: u64,
    /// `mp4_max_buffer_size`: the largest head of a film that is cut, bytes. Default 10 MiB.
    pub largest_moov: u64,
    /// `mp4_start_key_frame`: it begins with a frame that needs no other. Default: no.
    pub start_key_frame: bool,
}

impl Default for Seeking {
    fn default() -> Self {
        Self { format: None, buffer: 512 << 10, largest_moov: 10 << 20, start_key_frame: false }
    }
}

/// The files of the location are of this format.
fn seek(settings: &mut FeatureSettings, format: SeekFormat) -> Result<(), Refusal> {
    settings.seeking.format = Some(format);
    Ok(())
}

/// A size, of a value that the reader has found to be one.
fn bytes(words: &Words<'_>) -> Result<u64, Refusal> {
    size(words.word(0)).map_err(|_| Refusal::OfDirective("invalid value"))
}

fn explain(settings: &FeatureSettings, explaining: &mut dyn Explaining) {
    if settings.seeking.format == Some(SeekFormat::Mp4) && explaining.serves_files() {
        explaining.slows("mp4", "where the query has a start or an end, the film's head is cut for each request");
    }
}
