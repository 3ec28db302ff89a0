//! The directives of compression.

use super::rules::{CodingRules, CompressionRules, Precompressed, Proxied};
use crate::FeatureSettings;
use crate::media_types::add_types;
use crate::row::{DirectiveRow, Refusal, Words};
use crate::rule::{Arguments, Context, ValueForm};
use crate::units::{number, size};
use gzip::Coding;
use std::sync::Arc;

/// Why directives that tune nginx's own memory have no effect.
const MEMORY: &str = "memory of codings is as large as each needs";
/// Why brotli and zstd have no request that shows them.
const NOT_BUILT: &str = "- Debian's nginx has no such module; they share the setter of gzip";

const FILES: ValueForm = ValueForm::OneOf("off,on,always");

/// Those of modules that come with nginx.
pub(super) const GZIP: &[DirectiveRow] = &[
    DirectiveRow::new("gzip", "gzip", ValueForm::Flag, |settings, words| words.flag(&mut rules(settings).gzip.on))
        .within(Context::PLACES_AND_IF)
        .shown(
            "is on
             is off
             with gzip_min_length 1;
             ask GET page.html | Accept-Encoding: gzip
             seen content-encoding",
        ),
    DirectiveRow::new("gzip", "gzip_types", ValueForm::MediaTypes, |settings, words| {
        add_types(&mut rules(settings).gzip.types, words)
    })
    .taking(Arguments::at_least(1))
    .shown(
        "is text/css
         is text/plain
         is *
         with gzip on; gzip_min_length 1;
         ask GET style.css | Accept-Encoding: gzip
         ask GET text.txt | Accept-Encoding: gzip
         seen content-encoding",
    ),
    DirectiveRow::new("gzip", "gzip_comp_level", ValueForm::Number(Some((1, 9))), |settings, words| {
        level(Coding::Gzip, &mut rules(settings).gzip, words)
    })
    .shown("- how a body is compressed is not the body"),
    DirectiveRow::new("gzip", "gzip_min_length", ValueForm::Size, |settings, words| {
        min_length(&mut rules(settings).gzip, words)
    })
    .shown(
        "is 1
         is 100000
         with gzip on;
         ask GET page.html | Accept-Encoding: gzip
         seen content-encoding",
    ),
    DirectiveRow::new("gzip_static", "gzip_static", FILES, |settings, words| files(&mut rules(settings).gzip, words))
        .shown(
            "is on
         is off
         is always
         ask GET packed.css | Accept-Encoding: gzip
         ask GET packed.css
         seen content-encoding",
        ),
    DirectiveRow::new("gunzip", "gunzip", ValueForm::Flag, |settings, words| words.flag(&mut rules(settings).gunzip))
        .shown(
            "is on
         is off
         with gzip_static always;
         ask GET packed.css
         seen content-encoding",
        ),
    DirectiveRow::new("core", "gzip_vary", ValueForm::Flag, |settings, words| words.flag(&mut rules(settings).vary))
        .shown(
            "is on
         is off
         with gzip on; gzip_min_length 1;
         ask GET page.html
         seen vary",
        ),
    DirectiveRow::new("core", "gzip_http_version", ValueForm::OneOf("1.0,1.1"), |settings, words| {
        rules(settings).old_clients = words.word(0) == b"1.0";
        Ok(())
    })
    .shown(
        "is 1.0
         is 1.1
         with gzip on; gzip_min_length 1;
         ask GET page.html 1.0 | Accept-Encoding: gzip
         seen content-encoding",
    ),
    DirectiveRow::new("core", "gzip_proxied", ValueForm::SomeOf(PROXIED), proxied)
        .taking(Arguments::at_least(1))
        .shown(
            "is off
             is any
             is no_etag auth
             is no_last_modified
             with gzip on; gzip_min_length 1;
             ask GET page.html | Accept-Encoding: gzip | Via: 1.1 a
             ask GET page.html | Accept-Encoding: gzip | Via: 1.1 a | Authorization: Basic cGxhaW46c2VjcmV0
             seen content-encoding",
        ),
    DirectiveRow::new("core", "gzip_disable", ValueForm::Own, disable).taking(Arguments::at_least(1)).shown(
        "is old
         is new
         with gzip on; gzip_min_length 1;
         ask GET page.html | Accept-Encoding: gzip | User-Agent: an old one
         seen content-encoding",
    ),
    DirectiveRow::idle("gzip", "gzip_buffers", ValueForm::Buffers, MEMORY).taking(Arguments::exactly(2)),
    DirectiveRow::idle("gzip", "gzip_window", ValueForm::Size, MEMORY),
    DirectiveRow::idle("gzip", "gzip_hash", ValueForm::Size, MEMORY),
    DirectiveRow::idle("gzip", "gzip_no_buffer", ValueForm::Flag, MEMORY),
    DirectiveRow::idle("gzip", "postpone_gzipping", ValueForm::Size, MEMORY),
    DirectiveRow::idle("gunzip", "gunzip_buffers", ValueForm::Buffers, MEMORY).taking(Arguments::exactly(2)),
];

/// Those of modules for other codings.
pub(super) const OTHERS: &[DirectiveRow] = &[
    DirectiveRow::new("brotli", "brotli", ValueForm::Flag, |settings, words| {
        words.flag(&mut rules(settings).brotli.on)
    })
    .within(Context::PLACES_AND_IF)
    .shown(NOT_BUILT),
    DirectiveRow::new("brotli", "brotli_static", FILES, |settings, words| files(&mut rules(settings).brotli, words))
        .shown(NOT_BUILT),
    DirectiveRow::new("brotli", "brotli_comp_level", ValueForm::Number(Some((0, 11))), |settings, words| {
        level(Coding::Brotli, &mut rules(settings).brotli, words)
    })
    .shown(NOT_BUILT),
    DirectiveRow::new("brotli", "brotli_min_length", ValueForm::Own, |settings, words| {
        min_length(&mut rules(settings).brotli, words)
    })
    .shown(NOT_BUILT),
    DirectiveRow::new("brotli", "brotli_types", ValueForm::MediaTypes, |settings, words| {
        add_types(&mut rules(settings).brotli.types, words)
    })
    .taking(Arguments::at_least(1))
    .shown(NOT_BUILT),
    DirectiveRow::idle("brotli", "brotli_window", ValueForm::Own, MEMORY),
    DirectiveRow::idle("brotli", "brotli_buffers", ValueForm::Buffers, MEMORY).taking(Arguments::exactly(2)),
    DirectiveRow::new("zstd", "zstd", ValueForm::Flag, |settings, words| words.flag(&mut rules(settings).zstd.on))
        .within(Context::PLACES_AND_IF)
        .shown(NOT_BUILT),
    DirectiveRow::new("zstd", "zstd_static", FILES, |settings, words| files(&mut rules(settings).zstd, words))
        .shown(NOT_BUILT),
    DirectiveRow::new("zstd", "zstd_comp_level", ValueForm::Own, |settings, words| {
        level(Coding::Zstd, &mut rules(settings).zstd, words)
    })
    .shown(NOT_BUILT),
    DirectiveRow::new("zstd", "zstd_min_length", ValueForm::Own, |settings, words| {
        min_length(&mut rules(settings).zstd, words)
    })
    .shown(NOT_BUILT),
    DirectiveRow::new("zstd", "zstd_types", ValueForm::MediaTypes, |settings, words| {
        add_types(&mut rules(settings).zstd.types, words)
    })
    .taking(Arguments::at_least(1))
    .shown(NOT_BUILT),
    DirectiveRow::idle("zstd", "zstd_buffers", ValueForm::Buffers, MEMORY).taking(Arguments::exactly(2)),
    DirectiveRow::refused("zstd", "zstd_dict_file", ValueForm::Own, "it is not there yet").within(Context::HTTP),
];

/// The rules of a block, made its own.
fn rules(settings: &mut FeatureSettings) -> &mut CompressionRules {
    Arc::make_mut(&mut settings.compression)
}

/// The reader takes words of any case, nginx's setter these alone.
fn files(rules: &mut CodingRules, words: &Words<'_>) -> Result<(), Refusal> {
    rules.files = match words.word(0) {
        b"on" => Precompressed::On,
        b"always" => Precompressed::Always,
        b"off" => Precompressed::Off,
        word => return Err(Refusal::Text(format!("invalid value \"{}\"", String::from_utf8_lossy(word)))),
    };
    Ok(())
}

fn min_length(rules: &mut CodingRules, words: &Words<'_>) -> Result<(), Refusal> {
    rules.min_length = size(words.word(0)).map_err(|_| Refusal::OfDirective("invalid value"))?;
    Ok(())
}

fn level(coding: Coding, rules: &mut CodingRules, words: &Words<'_>) -> Result<(), Refusal> {
    let (levels, _) = coding.levels();
    let level = number(words.word(0)).map_err(|_| Refusal::OfDirective("invalid number"))?;
    let known = u8::try_from(level).ok().filter(|level| levels.contains(level));
    rules.level = known.ok_or_else(|| match level > u64::from(*levels.start()) {
        true => format!("value must be equal to or less than {}", levels.end()),
        false => format!("value must be equal to or greater than {}", levels.start()),
    })?;
    Ok(())
}

/// Words of `gzip_proxied`.
const PROXIED: &str = "off,expired,no-cache,no-store,private,no_last_modified,no_etag,auth,any";

/// The reader has warned of words that stand twice.
fn proxied(settings: &mut FeatureSettings, words: &mut Words<'_>) -> Result<(), Refusal> {
    let rules = rules(settings);
    if words.is_first() {
        rules.proxied = 0;
    }
    for word in words.words {
        rules.proxied |= match *word {
            b"off" => Proxied::Off,
            b"expired" => Proxied::Expired,
            b"no-cache" => Proxied::NoCache,
            b"no-store" => Proxied::NoStore,
            b"private" => Proxied::Private,
            b"no_last_modified" => Proxied::NoLastModified,
            b"no_etag" => Proxied::NoEtag,
            b"auth" => Proxied::Auth,
            b"any" => Proxied::Any,
            _ => return Err(Refusal::Text(format!("invalid value \"{}\"", String::from_utf8_lossy(word)))),
        } as u16;
    }
    Ok(())
}

fn disable(settings: &mut FeatureSettings, words: &mut Words<'_>) -> Result<(), Refusal> {
    let rules = rules(settings);
    if words.is_first() {
        rules.disabled.clear();
        rules.msie6 = false;
    }
    for word in words.words {
        match *word {
            b"msie6" => rules.msie6 = true,
            b"degradation" => {}
            pattern => rules.disabled.push(words.compiling.expression(pattern, true)?),
        }
    }
    Ok(())
}
