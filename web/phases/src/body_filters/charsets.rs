//! Which charset is told of content, and what becomes of content in another.

use crate::scope::Scope;
use configuration::program::Block;
use filters::Recoding;
use formats::text::{bare_type, charset_of, field_value};
use std::sync::Arc;

impl<'a> Scope<'a> {
    /// The charset that is told of content of this type, and how content becomes one of
    /// it, if it is in another. Nothing is told of what is in another and cannot; what is
    /// `coded` is not looked into.
    pub fn charset(
        &mut self,
        media_type: &[u8],
        block: &Block,
        (coded, hears): (bool, bool),
    ) -> (Option<Vec<u8>>, Option<Arc<Recoding>>) {
        let rules = &block.charset;
        if rules.charset.is_none() && self.state.passed.kept.charset.is_none() {
            return (None, None);
        }
        let own = charset_of(media_type);
        let charset = match (self.state.passed.kept.charset.clone(), &rules.charset) {
            // What the upstream asks for, if the configuration names it anywhere.
            (Some(asked), _) if self.program().charsets.find(&asked).is_some() => asked,
            (Some(asked), _) => {
                if hears {
                    self.tell(|| [&b"unknown charset \""[..], &asked, b"\" to override"].concat());
                }
                return (None, None);
            }
            (None, None) => return (None, None),
            (None, Some(charset)) => {
                let bare = media_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
                // What says itself which it is in is of that one, whatever its type is.
                let counts = match own {
                    Some(_) => rules.overrides,
                    None => rules.types.has(bare),
                };
                if !counts {
                    return (None, None);
                }
                self.get(charset)
            }
        };
        let source = match (own, &rules.source) {
            (Some(own), _) => own.to_vec(),
            (None, Some(source)) => self.get(source),
            (None, None) => return (Some(charset), None),
        };
        if charset.eq_ignore_ascii_case(&source) {
            return (Some(charset), None);
        }
        let charsets = &self.program().charsets;
        let places = charsets.find(&source).zip(charsets.find(&charset));
        match places.and_then(|(from, to)| charsets.table(from, to)) {
            Some(table) if !coded => (Some(charset), Some(Arc::clone(table))),
            Some(_) => (None, None),
            None if coded && places.is_some() || !hears => (None, None),
            None => {
                let what = b"no \"charset_map\" between the charsets \"";
                self.tell(|| [what, &source[..], b"\" and \"", &charset, b"\""].concat());
                (None, None)
            }
        }
    }

    /// The media type with the charset that is told of it.
    pub fn with_charset(&mut self, mut media_type: Vec<u8>, block: &Block, status: u16) -> Vec<u8> {
        let (told, _) = self.charset(&media_type, block, (false, false));
        // Not of redirects: old clients took it for that of the next page.
        if let Some(charset) = told.filter(|charset| !charset.is_empty() && !matches!(status, 301 | 302)) {
            let bare = bare_type(&media_type).len();
            media_type.truncate(bare);
            media_type.extend_from_slice(b"; charset=");
            field_value(&charset, &mut media_type);
        }
        media_type
    }
}
