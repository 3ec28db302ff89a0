//! What directives say of compression.

use super::{Coding, CompressionRules, Precompressed, Proxied};
use features::Compiling;
use features::units::{number, size};

/// Those that tune nginx's own memory: what is said is checked, and has no effect
/// here.
const TUNING: [&str; 8] = [
    "gzip_buffers",
    "gzip_window",
    "gzip_hash",
    "gzip_no_buffer",
    "postpone_gzipping",
    "brotli_buffers",
    "brotli_window",
    "zstd_buffers",
];

impl CompressionRules {
    /// Takes a directive by its name, from what follows it. `first`: it is the
    /// first of its name in its block, where lists of an outer block do not
    /// count. What nginx warns of is returned. Forms are checked by the language
    /// (numbers, `on` and `off`) before.
    ///
    /// # Errors
    /// What is wrong with it, in nginx's words.
    pub fn set(
        &mut self,
        name: &str,
        words: &[&[u8]],
        first: bool,
        compiling: &mut dyn Compiling,
    ) -> Result<Vec<String>, String> {
        let word = words.first().copied().unwrap_or_default();
        let on = word.eq_ignore_ascii_case(b"on");
        match name {
            _ if TUNING.contains(&name) => {}
            "gunzip" => self.gunzip = on,
            "gzip_vary" => self.vary = on,
            "gzip_http_version" => self.old_clients = word == b"1.0",
            "gzip_proxied" => return self.set_proxied(words, first),
            "gzip_disable" => {
                if first {
                    self.disabled.clear();
                    self.msie6 = false;
                }
                for word in words {
                    match *word {
                        b"msie6" => self.msie6 = true,
                        b"degradation" => {}
                        pattern => self.disabled.push(compiling.expression(pattern, true)?),
                    }
                }
            }
            _ => return self.set_coding(name, words, first),
        }
        Ok(Vec::new())
    }

    fn set_coding(&mut self, name: &str, words: &[&[u8]], first: bool) -> Result<Vec<String>, String> {
        let (coding, what) = name.split_once('_').unwrap_or((name, ""));
        let (coding, rules) = match coding {
            "gzip" => (Coding::Gzip, &mut self.gzip),
            "brotli" => (Coding::Brotli, &mut self.brotli),
            "zstd" => (Coding::Zstd, &mut self.zstd),
            _ => return Err(format!("unknown directive \"{name}\"")),
        };
        let word = words.first().copied().unwrap_or_default();
        match what {
            "" => rules.on = word.eq_ignore_ascii_case(b"on"),
            "static" => {
                rules.files = match word {
                    b"on" => Precompressed::On,
                    b"always" => Precompressed::Always,
                    b"off" => Precompressed::Off,
                    _ => return Err(format!("invalid value \"{}\"", String::from_utf8_lossy(word))),
                };
            }
            "min_length" => rules.min_length = size(word).map_err(|_| "invalid value")?,
            "comp_level" => {
                let (levels, _) = coding.levels();
                let level = number(word).map_err(|_| "invalid number")?;
                let known = u8::try_from(level).ok().filter(|level| levels.contains(level));
                rules.level = known.ok_or_else(|| match level > u64::from(*levels.start()) {
                    true => format!("value must be equal to or less than {}", levels.end()),
                    false => format!("value must be equal to or greater than {}", levels.start()),
                })?;
            }
            "types" => return Ok(add_types(&mut rules.types, words, first)),
            _ => return Err(format!("unknown directive \"{name}\"")),
        }
        Ok(Vec::new())
    }

    fn set_proxied(&mut self, words: &[&[u8]], first: bool) -> Result<Vec<String>, String> {
        let mut warnings = Vec::new();
        if first {
            self.proxied = 0;
        }
        for word in words {
            let flag = match *word {
                b"off" => Proxied::Off,
                b"expired" => Proxied::Expired,
                b"no-cache" => Proxied::NoCache,
                b"no-store" => Proxied::NoStore,
                b"private" => Proxied::Private,
                b"no_last_modified" => Proxied::NoLastModified,
                b"no_etag" => Proxied::NoEtag,
                b"auth" => Proxied::Auth,
                b"any" => Proxied::Any,
                _ => return Err(format!("invalid value \"{}\"", String::from_utf8_lossy(word))),
            } as u16;
            if self.proxied & flag != 0 {
                warnings.push(format!("duplicate value \"{}\"", String::from_utf8_lossy(word)));
            }
            self.proxied |= flag;
        }
        Ok(warnings)
    }
}

/// Adds media types to a list that has `text/html` already; `*` is all of them.
/// What nginx warns of is returned.
pub fn add_types(types: &mut Option<Vec<Box<[u8]>>>, words: &[&[u8]], first: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    if first {
        *types = Some(vec![b"text/html"[..].into()]);
    }
    for word in words {
        let Some(known) = types else { break };
        let lower = word.to_ascii_lowercase();
        if *word == b"*" {
            *types = None;
        } else if known.iter().any(|known| **known == *lower) {
            warnings.push(format!("duplicate MIME type \"{}\"", String::from_utf8_lossy(&lower)));
        } else {
            known.push(lower.into());
        }
    }
    warnings
}
