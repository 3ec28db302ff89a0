//! Why a file is not cut.

/// Why a file is not cut, but for what nobody can read. The file is to blame, and trying again
/// does not help.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// A box says that it is shorter than its own head: so many bytes.
    SmallBox(u64),
    /// A box goes on beyond the one that it is in: so many bytes.
    LargeBox(u64),
    /// The file ends within the head of a box.
    Truncated,
    /// `ftyp` is larger than is read, or than any is.
    LargeFtyp(u64),
    /// `moov` is larger than [`crate::Rules::largest_moov`].
    LargeMoov(u64),
    /// There is another of this box.
    Duplicate(&'static str),
    /// A box of this name has fewer bytes than what it says it has.
    Short(&'static str),
    /// No box of this name is there, of which some should be.
    None(&'static str),
    /// There is no `mdat`.
    NoMedia,
    /// It begins when the file is over.
    StartsTooLate,
    /// `moov` is compressed.
    Compressed,
    /// A table is not what it is to be: in nginx's words.
    Table(&'static str),
    /// It has more boxes, or tracks, than any film.
    TooMany(&'static str),
}

impl Error {
    /// The line for the error log, of the file at `path`, in nginx's words.
    #[must_use]
    pub fn told(&self, path: &[u8]) -> Vec<u8> {
        let of_file = |text: &str| [b"\"", path, b"\" ", text.as_bytes()].concat();
        let within = |text: &str| [text.as_bytes(), b" in \"", path, b"\""].concat();
        match self {
            Self::SmallBox(bytes) => of_file(&format!("mp4 atom is too small:{bytes}")),
            Self::LargeBox(bytes) => of_file(&format!("mp4 atom too large:{bytes}")),
            Self::Truncated => of_file("mp4 file truncated"),
            Self::LargeFtyp(bytes) => of_file(&format!("mp4 ftyp atom is too large:{bytes}")),
            Self::LargeMoov(bytes) => {
                let advice = "you may want to increase mp4_max_buffer_size";
                of_file(&format!("mp4 moov atom is too large:{bytes}, {advice}"))
            }
            Self::Duplicate(name) => within(&format!("duplicate mp4 {name} atom")),
            Self::Short(name) => of_file(&format!("mp4 {name} atom too small")),
            Self::None(name) => within(&format!("no mp4 {name} atoms were found")),
            Self::NoMedia => within("no mp4 mdat atom was found"),
            Self::StartsTooLate => of_file("mp4 start time exceeds file duration"),
            Self::Compressed => of_file("mp4 compressed moov atom (cmov) is not supported"),
            Self::Table(text) => within(text),
            Self::TooMany(what) => within(&format!("too many mp4 {what}")),
        }
    }
}
