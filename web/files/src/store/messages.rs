//! Messages: heads that a handler with rules of its own puts before content, and the
//! paths that are answered so.
//!
//! Content is kept once, behind one head: that of the path that was asked for first. What
//! another path would have before the same file is its handler's to keep.

use super::Store;
use crate::ids::{EntryId, MessageId};
use exchange::Ready;
use semantics::date::HttpDate;

/// The head of a file's whole content, for whoever may be sent it.
#[derive(Debug)]
pub struct FileHead {
    /// Its bytes, as they are sent in this second.
    pub bytes: Vec<u8>,
    /// Where in it the date begins.
    pub date_at: u16,
    /// As in [`Ready::series`].
    pub series: u16,
    /// As in [`Ready::terms`].
    pub terms: u8,
}

impl FileHead {
    /// Whether a message begins with it, but for its date.
    fn begins(&self, ready: &Ready) -> bool {
        let (ours, theirs, at) = (self.bytes.as_slice(), ready.head(), usize::from(self.date_at));
        let behind = at + HttpDate::from_unix(0).as_bytes().len();
        let alike = ours.len() == theirs.len() && ours.get(..at) == theirs.get(..at);
        alike && ours.get(behind..) == theirs.get(behind..) && (self.series, self.terms) == (ready.series, ready.terms)
    }
}

impl Store {
    /// The entry whose message it is, if that is there.
    pub fn entry_of(&self, message: MessageId) -> Option<EntryId> {
        let entry = self.entries.get(message.slot as usize)?;
        let is_there = entry.serial == message.serial && entry.prepared().is_some();
        is_there.then_some(EntryId { slot: message.slot, generation: entry.generation })
    }

    /// No path is answered any more, and no head of now is one that stays.
    pub fn forget_paths(&mut self) {
        self.hot.clear();
        self.first_serial = self.next_serial;
    }

    /// A path as sent is answered with the message of `entry` from now on.
    pub fn remember_path(&mut self, path: &[u8], entry: EntryId) {
        let serial = self.entries[entry.slot as usize].serial;
        self.hot.insert(path, MessageId { slot: entry.slot, serial });
    }

    /// Whether it is that of a head which is still to be sent.
    const fn is_current(&self, serial: u32) -> bool {
        let since = serial.wrapping_sub(self.first_serial);
        serial != 0 && since < self.next_serial.wrapping_sub(self.first_serial)
    }

    /// Puts a head before the content of `id`, unless another stands there.
    pub fn put_head(&mut self, id: EntryId, head: FileHead) -> bool {
        let at = id.slot as usize;
        let Some(prepared) = &self.entries[at].prepared else { return false };
        if self.is_current(self.entries[at].serial) {
            return head.begins(&prepared.ready);
        }
        let Some(prepared) = self.entries[at].prepared.take() else { return false };
        self.bytes -= prepared.bytes();
        let (mut prepared, old) = prepared.behind(head.bytes, head.date_at);
        (prepared.ready.series, prepared.ready.terms) = (head.series, head.terms);
        for body in old.into_iter().flatten().filter(|body| !body.is_free()) {
            self.retired_bytes += body.len() as usize;
            self.retired.push(body);
        }
        // Others are let go of for that: this one is not there meanwhile.
        self.make_room(prepared.bytes());
        self.bytes += prepared.bytes();
        let serial = self.new_serial();
        let entry = &mut self.entries[at];
        (entry.prepared, entry.serial) = (Some(prepared), serial);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Directory;
    use crate::identity::Identity;
    use crate::worker::{FileContent, Found};
    use app::Body;
    use exchange::Meta;
    use wire::Time;

    /// A store, and the entry of a file with this content.
    fn store(content: &[u8]) -> (Store, EntryId) {
        let mut store = Store::new(&Directory::everything());
        let id = store.find_exact(b"srv/page.html").unwrap();
        find(&mut store, id, content);
        (store, id)
    }

    /// A look finds this content.
    fn find(store: &mut Store, id: EntryId, content: &[u8]) {
        store.ask(id, Time::ZERO).unwrap();
        let identity = Identity::of(&rustix::fs::stat("/").unwrap());
        let meta = Meta { size: content.len() as u64, content_type: "text/html".into(), file: None };
        let message = content.to_vec();
        let found = FileContent { meta, identity, racy: false, message, head_len: 0, date_at: 0, content: None };
        store.on_found(id, Found::File(Box::new(found)));
    }

    fn head(second: u64, fields: &str) -> FileHead {
        let bytes = format!("Date: {}\r\n{fields}\r\n", date(second)).into_bytes();
        FileHead { bytes, date_at: 6, series: 7, terms: 1 }
    }

    fn date(second: u64) -> String {
        String::from_utf8(HttpDate::from_unix(second).as_bytes().to_vec()).unwrap()
    }

    /// What a path is answered with in this second.
    fn sent(store: &mut Store, path: &[u8], second: u64) -> Option<String> {
        let message = store.hot.get(path)?;
        let ready = store.ready(message, second)?;
        Some(String::from_utf8(ready.message.as_slice().to_vec()).unwrap())
    }

    fn answer(store: &mut Store, path: &[u8], id: EntryId, second: u64, fields: &str) -> bool {
        let is_put = store.put_head(id, head(second, fields));
        if is_put {
            store.refresh(id, second, &HttpDate::from_unix(second));
            store.remember_path(path, id);
        }
        is_put
    }

    #[test]
    fn content_is_kept_once_behind_the_first_head() {
        let (mut store, id) = store(b"content");
        assert_eq!(store.held().0, 7);
        assert!(answer(&mut store, b"/a", id, 5, "X: y\r\n"));
        let expected = format!("Date: {}\r\nX: y\r\n\r\ncontent", date(5));
        assert_eq!(sent(&mut store, b"/a", 5).as_deref(), Some(&*expected));
        assert_eq!(sent(&mut store, b"/a", 6), None, "the second is over");
        assert_eq!(store.held().0, expected.len() as u64);
        // Whose head is the same but for its date has the same message.
        assert!(answer(&mut store, b"/b", id, 6, "X: y\r\n"));
        let expected = format!("Date: {}\r\nX: y\r\n\r\ncontent", date(6));
        assert_eq!([&b"/a"[..], b"/b"].map(|path| sent(&mut store, path, 6).unwrap()), [&*expected; 2]);
        for other in ["X: z\r\n", "X: yy\r\n", ""] {
            assert!(!answer(&mut store, b"/c", id, 6, other), "{other}");
        }
        assert!(!store.put_head(id, FileHead { terms: 2, ..head(6, "X: y\r\n") }));
        assert!(!store.put_head(id, FileHead { series: 8, ..head(6, "X: y\r\n") }));
        assert_eq!(store.held().0, expected.len() as u64);
    }

    /// Another head may stand there meanwhile.
    #[test]
    fn paths_lead_to_no_message_but_their_own() {
        let (mut store, id) = store(b"content");
        assert!(answer(&mut store, b"/a", id, 5, "X: y\r\n"));
        find(&mut store, id, b"others");
        assert_eq!(sent(&mut store, b"/a", 5), None, "the file is another");
        assert!(answer(&mut store, b"/c", id, 5, "X: z\r\n"));
        assert_eq!(sent(&mut store, b"/a", 5), None);
        assert!(sent(&mut store, b"/c", 5).unwrap().ends_with("X: z\r\n\r\nothers"));
        // By another configuration heads are others, too.
        store.forget_paths();
        assert_eq!(sent(&mut store, b"/c", 5), None);
        assert!(answer(&mut store, b"/a", id, 5, "X: y\r\n"));
        assert!(!answer(&mut store, b"/c", id, 5, "X: z\r\n"));
        let body = format!("Date: {}\r\nX: y\r\n\r\nothers", date(5));
        assert_eq!(sent(&mut store, b"/a", 5).as_deref(), Some(&*body));
        assert_eq!(store.held().0, body.len() as u64);
    }

    /// Somebody is still sent the message without it.
    #[test]
    fn what_is_being_sent_stays_as_it_is() {
        let (mut store, id) = store(b"content");
        let sending: Body = store.entry(id).prepared().unwrap().ready.message.clone();
        assert!(answer(&mut store, b"/a", id, 5, ""));
        assert_eq!(sending.as_slice(), b"content");
        let message = sent(&mut store, b"/a", 5).unwrap().len() as u64;
        assert_eq!(store.held().0, message + 7);
        drop(sending);
        store.sweep();
        assert_eq!(store.held().0, message);
    }
}
