//! What is sent of films plays: its tables say where the samples are that the file's said, from
//! the time on. Hostile files end in an error, in bounded time.

#[path = "support/film.rs"]
mod film;

use film::{Plan, film};
use mp4::{Cut, Cutter, Error, Rules, Span, Step};
use random::SplitMix64;

const PLAN: Plan = Plan { tracks: 3, samples: 200, sample_bytes: 40 };

/// Cuts a file in memory, and counts how often it was read.
fn cut(file: &[u8], rules: Rules, span: Span) -> (Result<Option<Cut>, Error>, usize) {
    let mut cutter = Cutter::new(rules, span, file.len() as u64);
    for reads in 0.. {
        match cutter.poll() {
            Ok(Step::Read(range)) => {
                assert!(range.start < range.end && range.end <= file.len() as u64, "{range:?} of {}", file.len());
                cutter.on_read(file[range.start as usize..range.end as usize].to_vec());
            }
            Ok(Step::Whole) => return (Ok(None), reads),
            Ok(Step::Cut(cut)) => return (Ok(Some(cut)), reads),
            Err(why) => return (Err(why), reads),
        }
    }
    unreachable!("it ends")
}

fn asked(query: &str) -> Option<Span> {
    Span::asked(query.as_bytes())
}

fn span(start: u64, length: u64) -> Span {
    Span { start, length: core::num::NonZeroU64::new(length) }
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()))
}

/// The boxes in `bytes`: names and contents.
fn boxes(bytes: &[u8]) -> Vec<(&[u8], &[u8])> {
    let (mut at, mut found) = (0, Vec::new());
    while at < bytes.len() {
        let (size, head) = match number(bytes, at) {
            1 => (number(bytes, at + 12), 16),
            size => (size, 8),
        };
        found.push((&bytes[at + 4..at + 8], &bytes[at + head..at + size as usize]));
        at += size as usize;
    }
    found
}

fn inside<'a>(bytes: &'a [u8], path: &[&str]) -> Option<&'a [u8]> {
    path.iter().try_fold(bytes, |bytes, name| {
        boxes(bytes).into_iter().find(|(found, _)| *found == name.as_bytes()).map(|(_, content)| content)
    })
}

/// A sample: when it is shown and for how long, whether it needs no other, its bytes.
type Sample = (u64, u64, bool, Vec<u8>);

/// The samples of each track of a file, by its own tables.
fn samples(file: &[u8]) -> Vec<Vec<Sample>> {
    let moov = inside(file, &["moov"]).unwrap();
    let tracks = boxes(moov).into_iter().filter(|(name, _)| *name == b"trak");
    tracks.map(|(_, track)| samples_of(file, inside(track, &["mdia", "minf", "stbl"]).unwrap())).collect()
}

fn pairs(table: Option<&[u8]>) -> Vec<u64> {
    let table = table.unwrap_or(&[0; 8]);
    let runs = (8..8 + 8 * number(table, 4) as usize).step_by(8);
    runs.flat_map(|at| core::iter::repeat_n(number(table, at + 4), number(table, at) as usize)).collect()
}

fn samples_of(file: &[u8], tables: &[u8]) -> Vec<Sample> {
    let (durations, shown) = (pairs(inside(tables, &["stts"])), pairs(inside(tables, &["ctts"])));
    let keys: Option<Vec<u64>> = inside(tables, &["stss"])
        .map(|table| (0..number(table, 4) as usize).map(|at| number(table, 8 + 4 * at)).collect());
    let sizes = inside(tables, &["stsz"]).unwrap();
    let size = |at: usize| if number(sizes, 4) > 0 { number(sizes, 4) } else { number(sizes, 12 + 4 * at) };
    let offsets: Vec<u64> = match (inside(tables, &["stco"]), inside(tables, &["co64"])) {
        (Some(table), _) => (0..number(table, 4) as usize).map(|at| number(table, 8 + 4 * at)).collect(),
        (_, Some(table)) => (0..number(table, 4) as usize).map(|at| number(table, 12 + 8 * at)).collect(),
        _ => panic!("no offsets"),
    };
    let runs = inside(tables, &["stsc"]).unwrap();
    let count = number(runs, 4) as usize;
    let (mut out, mut run) = (Vec::new(), 0);
    for (chunk, offset) in offsets.iter().enumerate() {
        while run + 1 < count && number(runs, 8 + 12 * (run + 1)) <= chunk as u64 + 1 {
            run += 1;
        }
        let mut at = *offset as usize;
        for _ in 0..number(runs, 12 + 12 * run) {
            let place = out.len();
            let Some(duration) = durations.get(place) else { break };
            let bytes = file.get(at..at + size(place) as usize).unwrap_or_default().to_vec();
            at += size(place) as usize;
            let is_key = keys.as_ref().is_none_or(|keys| keys.contains(&(place as u64 + 1)));
            out.push((*duration, shown.get(place).copied().unwrap_or_default(), is_key, bytes));
        }
    }
    assert_eq!(out.len(), durations.len());
    out
}

/// Whether all samples of a track are alike: of such nginx leaves none out of a chunk, and
/// neither is it done here.
fn has_uniform_sizes(file: &[u8]) -> bool {
    let tracks = boxes(inside(file, &["moov"]).unwrap()).into_iter().filter(|(name, _)| *name == b"trak");
    tracks.into_iter().any(|(_, track)| number(inside(track, &["mdia", "minf", "stbl", "stsz"]).unwrap(), 4) > 0)
}

/// What is sent has the very samples of the file from the time on: none is missing, none is
/// another, and as many are left out before and behind as the durations say. Where it begins
/// with a key frame, an edit list hides what is before the time.
#[test]
fn what_is_sent_has_the_samples_of_the_time() {
    let (mut cuts, mut hidden, mut short) = (0, 0, 0);
    for seed in 0..300 {
        let mut random = SplitMix64::new(seed);
        let (file, milliseconds) = film(&mut random, PLAN);
        if has_uniform_sizes(&file) {
            continue;
        }
        let all = samples(&file);
        for _ in 0..6 {
            let start = random.up_to(milliseconds);
            let length = if random.below(2) == 0 { 0 } else { 1 + random.up_to(milliseconds) };
            let rules = Rules { start_key_frame: random.below(2) == 0, ..Rules::default() };
            let Ok(Some(Cut { mut head, media })) = cut(&file, rules, span(start, length)).0 else { continue };
            head.extend_from_slice(&file[media.start as usize..media.end as usize]);
            let left: Vec<Vec<Sample>> = samples(&head);
            cuts += 1;
            // As nginx has it, a span that ends with the first chunk, of which some samples are left
            // out, has none of its bytes.
            let lacks = |track: &Vec<Sample>| track.last().is_some_and(|(.., bytes)| bytes.is_empty());
            if left.iter().any(lacks) && !all.iter().any(lacks) {
                short += 1;
                continue;
            }
            let mut of_file = all.iter();
            for track in &left {
                let is_of = |samples: &&Vec<Sample>| track.len() <= samples.len() && holds(samples, track);
                assert!(of_file.any(|samples| is_of(&samples)), "seed {seed}: {start}+{length} {rules:?}");
            }
            let edits = boxes(inside(&head, &["moov"]).unwrap());
            hidden +=
                edits.iter().filter(|(name, content)| *name == b"trak" && inside(content, &["edts"]).is_some()).count();
        }
    }
    let told = format!("{cuts} cuts, {hidden} with a hidden beginning, {short} that lack the end");
    assert!(cuts > 300 && hidden > 50 && short < cuts / 20, "{told}");
}

/// Whether some of these samples, which follow each other, are those.
fn holds(samples: &[Sample], some: &[Sample]) -> bool {
    some.is_empty() || samples.windows(some.len()).any(|window| window == some)
}

/// The first sample that is sent is the one that is shown at the time, and the last the one
/// before the end.
#[test]
fn it_begins_and_ends_at_the_time() {
    for seed in 0..60 {
        let mut random = SplitMix64::new(seed);
        let (file, milliseconds) = film(&mut random, Plan { tracks: 1, ..PLAN });
        let all = &samples(&file)[0];
        let timescale = number(inside(&file, &["moov", "trak", "mdia", "mdhd"]).unwrap(), {
            let wide = inside(&file, &["moov", "trak", "mdia", "mdhd"]).unwrap()[0] != 0;
            if wide { 20 } else { 12 }
        });
        let start = random.up_to(milliseconds);
        let Ok(Some(Cut { mut head, media })) = cut(&file, Rules::default(), span(start, 0)).0 else { continue };
        head.extend_from_slice(&file[media.start as usize..media.end as usize]);
        let (mut time, mut first) = (0, 0);
        while time + all[first].0 <= start * timescale / 1000 {
            time += all[first].0;
            first += 1;
        }
        assert_eq!(samples(&head)[0].len(), all.len() - first, "seed {seed} from {start} ms");
    }
}

#[test]
fn times_are_read_as_nginx_reads_them() {
    for (query, expected) in [
        ("start=1.5", Some(span(1500, 0))),
        ("start=0", Some(span(0, 0))),
        ("start=.5", Some(span(500, 0))),
        ("start=1.23456789", Some(span(1234, 0))),
        ("a=1&START=2&end=5", Some(span(2000, 3000))),
        ("end=5", Some(span(0, 5000))),
        ("start=5&end=5", Some(span(5000, 0))),
        ("start=5&end=4", Some(span(5000, 0))),
        ("start=x&end=4", Some(span(0, 4000))),
        ("start=5&end=x", Some(span(5000, 0))),
        ("start=9223372036854775.807", Some(span(9_223_372_036_854_775_807, 0))),
        ("start=9223372036854775.808", None),
        ("start=9223372036854776", None),
        ("start=", None),
        ("start", None),
        ("restart=1", None),
        ("start=-1", None),
        ("start=1.2.3", None),
        ("start=%31", None),
        ("end=0", None),
        ("", None),
    ] {
        assert_eq!(asked(query), expected, "{query}");
    }
}

fn boxed(size: u32, name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    [&size.to_be_bytes()[..], name, content].concat()
}

/// Lengths of boxes that cannot be, and boxes of which there are too many.
#[test]
fn lengths_that_cannot_be_are_refused() {
    let wide = |size: u64| [&boxed(1, b"moov", &size.to_be_bytes())[..], &[0; 32]].concat();
    let one = span(1000, 0);
    let of = |file: &[u8]| cut(file, Rules::default(), one).0;
    assert_eq!(of(b""), Err(Error::None("trak")));
    assert_eq!(of(&[0; 64]), Err(Error::None("trak")));
    assert_eq!(of(&boxed(7, b"moov", b"")), Err(Error::SmallBox(7)));
    assert_eq!(of(b"\0\0"), Err(Error::Truncated));
    assert_eq!(of(b"\0\0\0\x09moo"), Err(Error::Truncated));
    assert_eq!(of(&boxed(9, b"moov", b"")), Err(Error::LargeBox(9)));
    for size in [0, 15] {
        assert_eq!(of(&wide(size)), Err(Error::SmallBox(size)));
    }
    for size in [1 << 32, u64::MAX, i64::MAX as u64] {
        assert_eq!(of(&wide(size)), Err(Error::LargeBox(size)));
    }
    let large = [boxed(4096 + 8, b"ftyp", &[0; 4096]), boxed(8, b"moov", b"")].concat();
    assert_eq!(of(&large), Err(Error::LargeFtyp(4096)));
    let twice = [boxed(8, b"mdat", b""), boxed(8, b"mdat", b"")].concat();
    assert_eq!(of(&twice), Err(Error::Duplicate("mdat")));
    let many = boxed(8, b"free", b"").repeat(1 << 20);
    let (told, reads) = cut(&many, Rules::default(), one);
    assert_eq!((told, reads <= 64), (Err(Error::TooMany("atoms")), true));
    let tracks = boxed(8, b"trak", b"").repeat(1 << 16);
    let film = [boxed(8 + tracks.len() as u32, b"moov", &tracks), boxed(8, b"mdat", b"")].concat();
    assert_eq!(of(&film), Err(Error::TooMany("trak atoms")));
    // One within the other, and never a box that is over.
    let deep = (0..1000).fold(Vec::new(), |inner: Vec<u8>, at| {
        let name = [b"trak", b"mdia", b"minf", b"stbl"][at % 4];
        boxed(8 + inner.len() as u32, name, &inner)
    });
    let film = [boxed(8 + deep.len() as u32, b"moov", &deep), boxed(8, b"mdat", b"")].concat();
    assert!(of(&film).is_err());
}

/// A head that is larger than it may be is not read, and one of that length is.
#[test]
fn a_head_may_be_as_large_as_it_is_said_to() {
    for seed in 0..20 {
        let (file, milliseconds) = film(&mut SplitMix64::new(seed), PLAN);
        let moov = inside(&file, &["moov"]).unwrap().len() as u64;
        let wanted = span(milliseconds / 3, 0);
        let rules = |largest_moov| Rules { buffer: 100, largest_moov, ..Rules::default() };
        let (small, reads) = cut(&file, rules(moov - 1), wanted);
        assert_eq!((small, reads <= 8), (Err(Error::LargeMoov(moov)), true), "seed {seed}");
        let whole = cut(&file, Rules::default(), wanted).0;
        assert_eq!(cut(&file, rules(moov), wanted).0, whole, "seed {seed}");
    }
}

/// Whatever a file says, it is cut or refused: never a panic, never more than the file has.
#[test]
fn whatever_a_file_says_it_ends() {
    let mut ends = [0; 2];
    for seed in 0..3_000 {
        let mut random = SplitMix64::new(seed);
        let (mut file, milliseconds) = film(&mut random, Plan { tracks: 2, samples: 30, sample_bytes: 9 });
        for _ in 0..=random.below(4) {
            let at = random.below(file.len() - 8);
            match random.below(4) {
                0 => file[at] = random.bits() as u8,
                1 => file[at..at + 4].fill(0xff),
                2 => file[at..at + 8].copy_from_slice(&(1_u64 << random.below(64)).to_be_bytes()),
                _ => file.truncate(at + 8),
            }
            if file.len() < 16 {
                break;
            }
        }
        let rules = Rules { start_key_frame: random.below(2) == 0, ..Rules::default() };
        let length = if random.below(2) == 0 { 0 } else { 1 + random.up_to(milliseconds) };
        match cut(&file, rules, span(random.up_to(milliseconds), length)).0 {
            Ok(Some(Cut { head, media })) => {
                assert!(media.start < media.end && media.end <= file.len() as u64, "seed {seed}: {media:?}");
                assert!(head.len() <= file.len() + 1024, "seed {seed}");
                ends[0] += 1;
            }
            Ok(None) => {}
            Err(why) => {
                assert!(!why.told(b"/f").is_empty());
                ends[1] += 1;
            }
        }
    }
    assert!(ends.iter().all(|count| *count > 300), "{ends:?}");
}
