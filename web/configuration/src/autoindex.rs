//! `autoindex` and `random_index`: what is in a folder, as nginx tells it, from a
//! list of what is there.

mod escape;

use escape::{json, uri};
use formats::markup::escape_html as html;
use semantics::date::HttpDate;

/// `autoindex`, and what belongs to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AutoindexRules {
    /// Folders without an index file are listed.
    pub on: bool,
    /// How.
    pub format: AutoindexFormat,
    /// Sizes are in bytes, in HTML (`autoindex_exact_size`).
    pub exact_size: bool,
    /// Times are local, in HTML (`autoindex_localtime`).
    pub local_time: bool,
    /// One of the files is answered, at random (`random_index`).
    pub random: bool,
}

impl Default for AutoindexRules {
    fn default() -> Self {
        Self { on: false, format: AutoindexFormat::Html, exact_size: true, local_time: false, random: false }
    }
}

/// `autoindex_format`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AutoindexFormat {
    /// A page.
    #[default]
    Html,
    /// A list of objects.
    Json,
    /// The same within a call of a function that the request names by its
    /// argument `callback`.
    Jsonp,
    /// A list of elements.
    Xml,
}

/// What is in a folder, by one of its names; what begins with a dot is not told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FolderEntry {
    /// The name.
    pub name: Box<[u8]>,
    /// What it is, at the end of links, unless they lead nowhere.
    pub kind: EntryKind,
    /// Bytes.
    pub size: u64,
    /// When it was modified, in seconds since 1970.
    pub modified: i64,
}

/// What a name in a folder is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    /// A folder.
    Folder,
    /// A file.
    File,
    /// Neither.
    Other,
}

/// The argument `callback` cannot be a function's name: status 400.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadCallback;

/// What a list is told of.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a> {
    /// The path of the request, decoded.
    pub path: &'a [u8],
    /// The argument `callback`, as it is sent.
    pub callback: Option<&'a [u8]>,
    /// The response is told to be in UTF-8: names are as long as they have
    /// letters.
    pub utf8: bool,
    /// Seconds between local time and that of Greenwich.
    pub local_offset: i64,
}

/// Letters of a name in HTML; what is longer is cut.
const NAME_LEN: usize = 50;

/// A callback's name, at most.
const CALLBACK_MAX: usize = 128;

impl AutoindexRules {
    /// Media type and charset of a list.
    #[must_use]
    pub const fn media_type(&self, listed: &Listed<'_>) -> (&'static [u8], Option<&'static [u8]>) {
        match (self.format, listed.callback) {
            (AutoindexFormat::Html, _) => (b"text/html", None),
            (AutoindexFormat::Xml, _) => (b"text/xml", Some(b"utf-8")),
            (AutoindexFormat::Jsonp, Some([_, ..])) => (b"application/javascript", None),
            (AutoindexFormat::Json | AutoindexFormat::Jsonp, _) => (b"application/json", None),
        }
    }

    /// Writes a list, and sorts its entries.
    ///
    /// # Errors
    /// See [`BadCallback`].
    pub fn write(
        &self,
        listed: &Listed<'_>,
        entries: &mut Vec<FolderEntry>,
        out: &mut Vec<u8>,
    ) -> Result<(), BadCallback> {
        entries.retain(|entry| !entry.name.starts_with(b"."));
        let folder = |entry: &FolderEntry| entry.kind == EntryKind::Folder;
        entries.sort_unstable_by(|a, b| folder(b).cmp(&folder(a)).then_with(|| a.name.cmp(&b.name)));
        match self.format {
            AutoindexFormat::Html => self.write_html(listed, entries, out),
            AutoindexFormat::Json => write_json(entries, out),
            AutoindexFormat::Jsonp => return write_jsonp(listed.callback, entries, out),
            AutoindexFormat::Xml => write_xml(entries, out),
        }
        Ok(())
    }

    fn write_html(&self, listed: &Listed<'_>, entries: &[FolderEntry], out: &mut Vec<u8>) {
        out.extend_from_slice(b"<html>\r\n<head><title>Index of ");
        html(listed.path, out);
        out.extend_from_slice(b"</title></head>\r\n<body>\r\n<h1>Index of ");
        html(listed.path, out);
        out.extend_from_slice(b"</h1><hr><pre><a href=\"../\">../</a>\r\n");
        for entry in entries {
            self.write_row(listed, entry, out);
        }
        out.extend_from_slice(b"</pre><hr></body>\r\n</html>\r\n");
    }

    fn write_row(&self, listed: &Listed<'_>, entry: &FolderEntry, out: &mut Vec<u8>) {
        let folder = entry.kind == EntryKind::Folder;
        out.extend_from_slice(b"<a href=\"");
        uri(&entry.name, out);
        out.extend_from_slice(if folder { b"/\">" } else { b"\">" });
        let text = if listed.utf8 { core::str::from_utf8(&entry.name).ok() } else { None };
        let mut letters = text.map_or(entry.name.len(), |text| text.chars().count());
        if letters > NAME_LEN {
            let cut = match text {
                Some(text) => text.char_indices().nth(NAME_LEN - 3).map_or(text.len(), |(at, _)| at),
                None => NAME_LEN - 3,
            };
            html(&entry.name[..cut], out);
            out.extend_from_slice(b"..&gt;</a>");
        } else {
            html(&entry.name, out);
            if folder && letters < NAME_LEN {
                out.push(b'/');
                letters += 1;
            }
            out.extend_from_slice(b"</a>");
            out.resize(out.len() + NAME_LEN - letters, b' ');
        }
        let offset = if self.local_time { listed.local_offset } else { 0 };
        let date = date(entry.modified.saturating_add(offset));
        let date = date.as_bytes();
        // From `Sun, 06 Nov 1994 08:49:37 GMT`.
        let parts: [&[u8]; 9] = [b" ", &date[5..7], b"-", &date[8..11], b"-", &date[12..16], b" ", &date[17..22], b" "];
        parts.iter().for_each(|part| out.extend_from_slice(part));
        let size = match (self.exact_size, folder) {
            (true, true) => format!("{:>19}", "-"),
            (true, false) => format!("{:>19}", entry.size),
            (false, true) => format!("{:>7}", "-"),
            (false, false) => short(entry.size),
        };
        out.extend_from_slice(size.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

/// A size in seven letters.
fn short(size: u64) -> String {
    let scaled = |shift: u32, unit: char| {
        let rounded = (size >> shift) + u64::from(size & ((1 << shift) - 1) >= 1 << (shift - 1));
        format!("{rounded:>6}{unit}")
    };
    match size {
        0..=9_999 => format!(" {size:>6}"),
        10_000..=0xf_ffff => scaled(10, 'K'),
        0x10_0000..=0x3fff_ffff => scaled(20, 'M'),
        _ => scaled(30, 'G'),
    }
}

fn date(seconds: i64) -> HttpDate {
    HttpDate::from_unix(u64::try_from(seconds).unwrap_or(0))
}

fn write_json(entries: &[FolderEntry], out: &mut Vec<u8>) {
    out.push(b'[');
    for (at, entry) in entries.iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"\r\n{ \"name\":\"" } else { b",\r\n{ \"name\":\"" });
        json(&entry.name, out);
        out.extend_from_slice(b"\", \"type\":\"");
        out.extend_from_slice(entry.kind.name());
        out.extend_from_slice(b"\", \"mtime\":\"");
        out.extend_from_slice(date(entry.modified).as_bytes());
        out.push(b'"');
        if entry.kind == EntryKind::File {
            out.extend_from_slice(format!(", \"size\":{}", entry.size).as_bytes());
        }
        out.extend_from_slice(b" }");
    }
    out.extend_from_slice(b"\r\n]");
}

fn write_jsonp(callback: Option<&[u8]>, entries: &[FolderEntry], out: &mut Vec<u8>) -> Result<(), BadCallback> {
    let callback = callback.unwrap_or_default();
    let name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'.';
    if callback.len() > CALLBACK_MAX || !callback.iter().all(name) {
        return Err(BadCallback);
    }
    if callback.is_empty() {
        write_json(entries, out);
        return Ok(());
    }
    out.extend_from_slice(b"/* callback */\r\n");
    out.extend_from_slice(callback);
    out.push(b'(');
    write_json(entries, out);
    out.extend_from_slice(b");");
    Ok(())
}

fn write_xml(entries: &[FolderEntry], out: &mut Vec<u8>) {
    out.extend_from_slice(b"<?xml version=\"1.0\"?>\r\n<list>\r\n");
    for entry in entries {
        let kind = entry.kind.name();
        let date = date(entry.modified);
        let date = date.as_bytes();
        const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
        let month = MONTHS.chunks(3).position(|month| month == &date[8..11]).map_or(1, |month| month + 1);
        out.push(b'<');
        out.extend_from_slice(kind);
        out.extend_from_slice(b" mtime=\"");
        out.extend_from_slice(&date[12..16]);
        out.extend_from_slice(format!("-{month:02}-").as_bytes());
        out.extend_from_slice(&date[5..7]);
        out.push(b'T');
        out.extend_from_slice(&date[17..25]);
        out.extend_from_slice(b"Z\"");
        if entry.kind == EntryKind::File {
            out.extend_from_slice(format!(" size=\"{}\"", entry.size).as_bytes());
        }
        out.push(b'>');
        html(&entry.name, out);
        out.extend_from_slice(b"</");
        out.extend_from_slice(kind);
        out.extend_from_slice(b">\r\n");
    }
    out.extend_from_slice(b"</list>\r\n");
}

impl EntryKind {
    const fn name(self) -> &'static [u8] {
        match self {
            Self::Folder => b"directory",
            Self::File => b"file",
            Self::Other => b"other",
        }
    }
}

/// The file that `random_index` answers, if there is any; `random` is any number.
#[must_use]
pub fn random_file(entries: &[FolderEntry], random: u64) -> Option<&FolderEntry> {
    let files = || entries.iter().filter(|entry| entry.kind == EntryKind::File && !entry.name.starts_with(b"."));
    let count = files().count() as u64;
    files().nth(usize::try_from(random.checked_rem(count)?).ok()?)
}

#[cfg(test)]
mod tests;
