//! Films for tests: mp4 files of any number of tracks, in all the forms that heads have.

use random::SplitMix64;

/// How a film is made.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Tracks, and samples of each, at most.
    pub tracks: usize,
    pub samples: usize,
    /// Bytes of a sample, at most.
    pub sample_bytes: usize,
}

/// A track while it is made.
struct Made {
    timescale: u32,
    movie_timescale: u32,
    durations: Vec<u32>,
    sizes: Vec<u32>,
    uniform: bool,
    /// Samples of each chunk, and where it lies in the media.
    chunks: Vec<(u32, u64)>,
}

/// A box.
fn boxed(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32 + 8).to_be_bytes()[..], name, content].concat()
}

/// One that tells its length in eight bytes.
fn boxed_wide(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    [&1_u32.to_be_bytes()[..], name, &(content.len() as u64 + 16).to_be_bytes(), content].concat()
}

fn chance(random: &mut SplitMix64, one_in: usize) -> bool {
    random.below(one_in) == 0
}

/// Any of these.
fn any<T: Copy>(random: &mut SplitMix64, of: &[T]) -> T {
    of[random.below(of.len())]
}

/// Runs of equal numbers, as how many and which.
fn runs(values: &[u32]) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for value in values {
        match runs.last_mut() {
            Some((count, last)) if last == value => *count += 1,
            _ => runs.push((1, *value)),
        }
    }
    runs
}

/// The content of a table, whose entries are numbers.
fn table(entries: usize, numbers: impl Iterator<Item = u32>) -> Vec<u8> {
    let mut out = [&[0; 4][..], &(entries as u32).to_be_bytes()].concat();
    numbers.for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
    out
}

/// The content of a head with times: `before` stands behind them, then the duration (with
/// `between` before it), and `rest` bytes.
fn timed(random: &mut SplitMix64, fields: &[u32], duration: u64, rest: usize) -> Vec<u8> {
    let wide = chance(random, 3);
    let time = |out: &mut Vec<u8>, value: u64| match wide {
        true => out.extend_from_slice(&value.to_be_bytes()),
        false => out.extend_from_slice(&(value as u32).to_be_bytes()),
    };
    let mut out = vec![u8::from(wide), 0, 0, 0];
    time(&mut out, 3_000_000_000);
    time(&mut out, 3_000_000_001);
    fields.iter().for_each(|field| out.extend_from_slice(&field.to_be_bytes()));
    time(&mut out, duration);
    out.extend((0..rest).map(|at| at as u8));
    out
}

impl Made {
    fn new(random: &mut SplitMix64, plan: Plan, movie_timescale: u32) -> Self {
        let timescale = any(random, &[600, 1000, 12_800, 44_100, 90_000]);
        let samples = 1 + random.below(plan.samples);
        let mut duration = 1 + random.below(timescale as usize / 5) as u32;
        let changes = 1 + random.below(40);
        let mut durations = Vec::with_capacity(samples);
        for _ in 0..samples {
            if chance(random, changes) {
                duration = 1 + random.below(timescale as usize / 5) as u32;
            }
            durations.push(duration);
        }
        let uniform = chance(random, 4);
        let most = plan.sample_bytes;
        let alike = 1 + random.below(most) as u32;
        let sizes = (0..samples).map(|_| if uniform { alike } else { random.below(most) as u32 }).collect();
        let mut chunks = Vec::new();
        let (mut left, mut each, most) = (samples as u32, 1, 1 + random.below(12));
        while left > 0 {
            if chance(random, 5) {
                each = 1 + random.below(most) as u32;
            }
            let some = each.min(left);
            chunks.push((some, 0));
            left -= some;
        }
        Self { timescale, movie_timescale, durations, sizes, uniform, chunks }
    }

    fn duration(&self) -> u64 {
        self.durations.iter().map(|duration| u64::from(*duration)).sum()
    }

    fn movie_duration(&self) -> u64 {
        self.duration() * u64::from(self.movie_timescale) / u64::from(self.timescale)
    }

    /// Its media, chunk by chunk.
    fn chunk_bytes(&self) -> Vec<u64> {
        let mut sizes = self.sizes.iter();
        let bytes = |samples: u32| (0..samples).filter_map(|_| sizes.next()).map(|size| u64::from(*size)).sum();
        self.chunks.iter().map(|(samples, _)| *samples).map(bytes).collect()
    }

    /// `stbl`, with the media at `media` in the file.
    fn samples(&self, random: &mut SplitMix64, media: u64) -> Vec<u8> {
        let count = self.sizes.len();
        let times = runs(&self.durations);
        let mut boxes = vec![
            boxed(b"stsd", &[&[0, 0, 0, 0, 0, 0, 0, 1][..], &boxed(b"avc1", &[7; 70])].concat()),
            boxed(b"stts", &table(times.len(), times.iter().flat_map(|(count, duration)| [*count, *duration]))),
        ];
        if !chance(random, 3) {
            let every = 1 + random.below(30);
            let keys: Vec<u32> = (1..=count as u32).filter(|at| *at == 1 || chance(random, every)).collect();
            boxes.push(boxed(b"stss", &table(keys.len(), keys.iter().copied())));
        }
        if chance(random, 2) {
            let most = 1 + random.below(5);
            let shown: Vec<u32> = (0..count).map(|_| random.below(most) as u32 * 100).collect();
            let shown = runs(&shown);
            boxes.push(boxed(b"ctts", &table(shown.len(), shown.iter().flat_map(|(count, offset)| [*count, *offset]))));
        }
        let mut by_chunk: Vec<(u32, u32, u32)> = Vec::new();
        for (at, (samples, _)) in self.chunks.iter().enumerate() {
            let described = 1 + u32::from(chance(random, 20));
            if by_chunk.last().is_none_or(|(_, before, last)| (before, last) != (samples, &described)) {
                by_chunk.push((at as u32 + 1, *samples, described));
            }
        }
        let entries = by_chunk.iter().flat_map(|(chunk, samples, described)| [*chunk, *samples, *described]);
        boxes.push(boxed(b"stsc", &table(by_chunk.len(), entries)));
        let each = if self.uniform { self.sizes[0] } else { 0 };
        let mut sizes = [&[0; 4][..], &each.to_be_bytes(), &(count as u32).to_be_bytes()].concat();
        if !self.uniform {
            self.sizes.iter().for_each(|size| sizes.extend_from_slice(&size.to_be_bytes()));
        }
        boxes.push(boxed(b"stsz", &sizes));
        if chance(random, 3) {
            let mut offsets = table(self.chunks.len(), core::iter::empty());
            self.chunks.iter().for_each(|(_, at)| offsets.extend_from_slice(&(media + at).to_be_bytes()));
            boxes.push(boxed(b"co64", &offsets));
        } else {
            let offsets = self.chunks.iter().map(|(_, at)| (media + at) as u32);
            boxes.push(boxed(b"stco", &table(self.chunks.len(), offsets)));
        }
        if chance(random, 4) {
            boxes.push(boxed(b"sgpd", &[3; 30]));
        }
        boxed(b"stbl", &boxes.concat())
    }

    /// `trak`.
    fn boxes(&self, random: &mut SplitMix64, media: u64) -> Vec<u8> {
        let kind = if chance(random, 2) { boxed(b"vmhd", &[1; 12]) } else { boxed(b"smhd", &[2; 8]) };
        let mut information = vec![kind, boxed(b"dinf", &boxed(b"dref", &[0; 8]))];
        information.push(self.samples(random, media));
        let mut head = timed(random, &[self.timescale], self.duration(), 4);
        head.extend_from_slice(&[9; 3][..random.below(4)]);
        let head = boxed(b"mdhd", &head);
        let handler = boxed(b"hdlr", &[0; 25]);
        let information = boxed(b"minf", &information.concat());
        let mut media = [head, handler, information];
        if chance(random, 4) {
            media.rotate_left(1);
        }
        // Version, times, number, reserved, duration.
        let mut boxes = vec![boxed(b"tkhd", &timed(random, &[1, 0], self.movie_duration(), 60))];
        if chance(random, 2) {
            let edit = table(1, [self.movie_duration() as u32, 0, 1 << 16].into_iter());
            boxes.push(boxed(b"edts", &boxed(b"elst", &edit)));
        }
        boxes.push(boxed(b"mdia", &media.concat()));
        if chance(random, 3) {
            boxes.push(boxed(b"udta", &[5; 11]));
        }
        match chance(random, 8) {
            true => boxed_wide(b"trak", &boxes.concat()),
            false => boxed(b"trak", &boxes.concat()),
        }
    }
}

/// A film: its bytes, and how long it is, in milliseconds.
pub fn film(random: &mut SplitMix64, plan: Plan) -> (Vec<u8>, u64) {
    let movie_timescale = any(random, &[600, 1000, 90_000]);
    let count = 1 + random.below(plan.tracks);
    let mut tracks: Vec<Made> = (0..count).map(|_| Made::new(random, plan, movie_timescale)).collect();
    // Chunks of all tracks, by turns.
    let bytes: Vec<Vec<u64>> = tracks.iter().map(Made::chunk_bytes).collect();
    let (mut at, mut turn) = (0, 0);
    while bytes.iter().any(|of_track| turn < of_track.len()) {
        for (track, of_track) in tracks.iter_mut().zip(&bytes) {
            if let (Some((_, place)), Some(bytes)) = (track.chunks.get_mut(turn), of_track.get(turn)) {
                *place = at;
                at += bytes + u64::from(chance(random, 30));
            }
        }
        turn += 1;
    }
    let noise: Vec<u8> = (0..=at / 8).flat_map(|_| random.bits().to_le_bytes()).take(at as usize).collect();
    let media = if chance(random, 6) { boxed_wide(b"mdat", &noise) } else { boxed(b"mdat", &noise) };
    let ftyp = boxed(b"ftyp", b"isom\0\0\x02\0isomiso2avc1mp41");
    let free = if chance(random, 2) { boxed(b"free", &[0; 40]) } else { Vec::new() };
    let (form, moov_first) = (random.bits(), chance(random, 2));
    let duration = tracks.iter().map(Made::movie_duration).max().unwrap_or(0);
    let moov = |media: u64| {
        let mut random = SplitMix64::new(form);
        let mut boxes = vec![boxed(b"mvhd", &timed(&mut random, &[movie_timescale], duration, 80))];
        boxes.extend(tracks.iter().map(|track| track.boxes(&mut random, media)));
        if chance(&mut random, 2) {
            boxes.push(boxed(b"udta", &boxed(b"meta", &[1; 90])));
        }
        boxed(b"moov", &boxes.concat())
    };
    // Where the media lies does not change how long the head is.
    let head = media.len() as u64 - at;
    let begins =
        ftyp.len() as u64 + if moov_first { moov(0).len() as u64 + free.len() as u64 } else { free.len() as u64 };
    let moov = moov(begins + head);
    let bytes = match moov_first {
        true => [ftyp, moov, free, media],
        false => [ftyp, free, media, moov],
    };
    (bytes.concat(), duration * 1000 / u64::from(movie_timescale))
}
