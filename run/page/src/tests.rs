use super::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const METRICS: [Metric; 3] = [
    Metric { name: "http.requests", kind: MetricKind::Counter },
    Metric { name: "tcp.connections", kind: MetricKind::Gauge },
    Metric { name: "link.rx_frames", kind: MetricKind::Counter },
];

/// A folder of the test's own, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nearside-page-{}-{name}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn create(path: &Path, silos: usize) -> Result<(Page, Vec<Writer>), PageError> {
    Page::create(path, "serve ./site", Duration::from_secs(1_700_000_000), &METRICS, (silos, SeriesShape::default()))
}

#[test]
fn what_is_published_is_read_by_name() {
    let folder = Folder::new("read");
    let (page, mut writers) = create(&folder.file("a.page"), 2).unwrap();
    let reader = Reader::open(page.path()).unwrap();
    assert!(reader.is_alive());
    assert_eq!((reader.pid(), reader.label()), (std::process::id(), "serve ./site"));
    assert_eq!(reader.started(), Duration::from_secs(1_700_000_000));
    let expected: Vec<_> = METRICS.iter().map(|m| (m.name.to_owned(), m.kind)).collect();
    assert_eq!(reader.metrics(), expected);
    let snapshot = reader.snapshot().unwrap();
    assert_eq!(snapshot.silos.len(), 2);
    let silent = SiloSnapshot { time: None, values: vec![0, 0, 0], consistent: true };
    assert_eq!(snapshot.silos[0], silent);

    let now = Time::from_millis(5);
    assert!(writers[1].is_due(now));
    writers[1].publish(now, &[10, 20, u64::MAX]);
    assert!(!writers[1].is_due(now) && writers[1].is_due(now + PUBLISH_INTERVAL));
    let snapshot = reader.snapshot().unwrap();
    assert_eq!(snapshot.silos[0], silent);
    let published = SiloSnapshot { time: Some(now), values: vec![10, 20, u64::MAX], consistent: true };
    assert_eq!(snapshot.silos[1], published);
    // Too few and too many values do no harm to the neighbour.
    writers[0].publish(now, &[7; 100]);
    writers[0].publish(now, &[8]);
    let snapshot = reader.snapshot().unwrap();
    assert_eq!(snapshot.silos[0].values, [8, 7, 7]);
    assert_eq!(snapshot.silos[1], published);
}

#[test]
fn a_page_goes_with_its_owner() {
    let folder = Folder::new("drop");
    let path = folder.file("a.page");
    let (page, _writers) = create(&path, 1).unwrap();
    assert!(matches!(create(&path, 1), Err(PageError::InUse(pid)) if pid == std::process::id()));
    drop(page);
    assert!(!path.exists());
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0, "no draft is left");

    // A page that was put in its place is another's.
    let (page, _writers) = create(&path, 1).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, "another's").unwrap();
    drop(page);
    assert!(path.exists());
}

#[test]
fn a_dead_process_is_known_and_its_page_replaced() {
    let folder = Folder::new("dead");
    let path = folder.file("a.page");
    let (page, writers) = create(&path, 1).unwrap();
    drop(writers);
    core::mem::forget(page);
    let mut bytes = fs::read(&path).unwrap();
    // A process that has ended and was waited for: its number names nobody,
    // or somebody who started at another time.
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    bytes[16..24].copy_from_slice(&u64::from(ended.id()).to_ne_bytes());
    fs::write(&path, &bytes).unwrap();
    assert!(!Reader::open(&path).unwrap().is_alive());
    // Our number, taken over from a process that started earlier.
    bytes[16..24].copy_from_slice(&u64::from(std::process::id()).to_ne_bytes());
    bytes[24..32].copy_from_slice(&1u64.to_ne_bytes());
    fs::write(&path, &bytes).unwrap();
    assert!(!Reader::open(&path).unwrap().is_alive());

    let (_page, _writers) = create(&path, 1).unwrap();
    assert!(Reader::open(&path).unwrap().is_alive());
}

#[test]
fn living_pages_are_listed_and_dead_ones_swept() {
    let folder = Folder::new("living");
    let (_page, _writers) = create(&folder.file("2.page"), 1).unwrap();
    let dead = folder.file("1.page");
    let mut bytes = fs::read(folder.file("2.page")).unwrap();
    bytes[24] ^= 0xff;
    fs::write(&dead, bytes).unwrap();
    fs::write(folder.file("3.page"), "no page").unwrap();
    fs::write(folder.file("other"), "not named so").unwrap();
    let living = living(&folder.0).unwrap();
    assert_eq!(living.len(), 1);
    assert!(!dead.exists() && folder.file("3.page").exists() && folder.file("other").exists());
}

/// Processes of another PID namespace that share the folder look dead from here, and have pages by
/// numbers that are taken here, too.
#[test]
fn pages_of_other_namespaces_are_left_alone() {
    let folder = Folder::new("namespaces");
    let own = folder.file(&usual_name(7));
    let (_page, _writers) = create(&own, 1).unwrap();
    let mut bytes = fs::read(&own).unwrap();
    bytes[24] ^= 0xff;
    let (theirs, dead) = (folder.file("7-1.page"), folder.file(&usual_name(8)));
    fs::write(&theirs, &bytes).unwrap();
    fs::write(&dead, &bytes).unwrap();
    std::os::unix::fs::symlink("/proc/4194305/fd/3", folder.file("9-1.page")).unwrap();
    assert_ne!(own, theirs);
    assert_eq!(living(&folder.0).unwrap().len(), 1);
    assert!(theirs.exists() && folder.file("9-1.page").is_symlink());
    assert!(!dead.exists(), "this namespace's are swept");
}

#[test]
fn a_file_that_is_no_page_is_refused_and_kept() {
    let folder = Folder::new("foreign");
    let path = folder.file("x");
    for content in [&b"precious"[..], &[0; 4096], &[0xff; 4096]] {
        fs::write(&path, content).unwrap();
        assert!(matches!(Reader::open(&path), Err(PageError::NotAPage)));
        assert!(matches!(create(&path, 1), Err(PageError::NotAPage)));
        assert_eq!(fs::read(&path).unwrap(), content);
    }
    fs::write(&path, "").unwrap();
    assert!(create(&path, 1).is_ok(), "an empty file is a place to fill");
    assert!(matches!(Reader::open(&folder.0), Err(PageError::Io(_))));
    assert!(matches!(Reader::open(&folder.file("none")), Err(PageError::Io(_))));
}

#[test]
fn lies_in_the_head_are_errors() {
    let folder = Folder::new("lies");
    let (page, _writers) = create(&folder.file("a.page"), 1).unwrap();
    let good = fs::read(page.path()).unwrap();
    let path = folder.file("b.page");
    for index in 0..HEAD_WORDS {
        for lie in [u64::MAX, 1 << 32, METRICS_LIMIT as u64, 65] {
            let mut bytes = good.clone();
            bytes[index * WORD..][..WORD].copy_from_slice(&lie.to_ne_bytes());
            fs::write(&path, &bytes).unwrap();
            if let Ok(reader) = Reader::open(&path) {
                reader.snapshot().unwrap();
                assert!(reader.series().is_ok_and(|series| series.len() <= 65));
            }
        }
    }
    let mut bytes = good.clone();
    bytes[8] = 9;
    fs::write(&path, &bytes).unwrap();
    assert!(matches!(Reader::open(&path), Err(PageError::Layout(9))));
    for len in [0, 10, 127, 200, good.len() - 1] {
        fs::write(&path, &good[..len]).unwrap();
        assert!(matches!(Reader::open(&path), Err(PageError::NotAPage)));
    }
    fs::write(&path, &good).unwrap();
    let reader = Reader::open(&path).unwrap();
    fs::write(&path, &good[..130]).unwrap();
    assert!(reader.snapshot().is_err(), "a page made shorter while open");
}

#[test]
fn a_reader_sees_values_of_one_moment() {
    let folder = Folder::new("race");
    let (page, mut writers) = create(&folder.file("a.page"), 1).unwrap();
    let reader = Reader::open(page.path()).unwrap();
    let mut writer = writers.pop().unwrap();
    let writing = std::thread::spawn(move || {
        for i in 1..=200_000 {
            writer.publish(Time::from_nanos(i), &[i, i * 2, i * 3]);
        }
    });
    let mut seen = 0;
    while !writing.is_finished() {
        let silo = reader.snapshot().unwrap().silos.remove(0);
        if silo.consistent {
            let i = silo.time.map_or(0, Time::as_nanos);
            assert_eq!(silo.values, [i, i * 2, i * 3]);
            seen += 1;
        }
    }
    writing.join().unwrap();
    let silo = reader.snapshot().unwrap().silos.remove(0);
    assert_eq!((silo.values[0], silo.consistent), (200_000, true));
    println!("{seen} snapshots during the writing");
}

#[test]
fn the_last_note_is_read_whole() {
    let folder = Folder::new("note");
    let (mut page, mut writers) = create(&folder.file("a.page"), 2).unwrap();
    let reader = Reader::open(page.path()).unwrap();
    assert_eq!(reader.note().unwrap(), None);
    let long = "ö".repeat(NOTE_LIMIT);
    for (well, text, shown) in [(true, "reloaded", "reloaded"), (false, &long, &long[..NOTE_LIMIT]), (true, "", "")] {
        let at = Duration::from_secs(1_700_000_001);
        page.tell(at, well, text);
        assert_eq!(reader.note().unwrap(), Some(Note { at, well, text: shown.to_owned() }));
    }
    // It does no harm to the last silo, nor that to it.
    writers[1].publish(Time::from_millis(1), &[1, 2, 3, 4, 5]);
    page.tell(Duration::ZERO, true, &long);
    assert_eq!(reader.snapshot().unwrap().silos[1].values, [1, 2, 3]);
    assert_eq!(reader.note().unwrap().unwrap().text.len(), NOTE_LIMIT);
    // Half written, by one that died: none.
    page.mapping.words()[page.note].fetch_add(1, Ordering::Relaxed);
    assert_eq!(reader.note().unwrap(), None);
}

#[test]
fn a_writer_that_died_while_storing_is_told() {
    let folder = Folder::new("torn");
    let (page, mut writers) = create(&folder.file("a.page"), 1).unwrap();
    writers[0].publish(Time::from_millis(1), &[1, 2, 3]);
    let block = &writers[0].mapping.words()[writers[0].block..];
    block[0].fetch_add(1, Ordering::Relaxed);
    let silo = Reader::open(page.path()).unwrap().snapshot().unwrap().silos.remove(0);
    assert!(!silo.consistent);
    assert_eq!(silo.values, [1, 2, 3]);
}

#[test]
fn names_and_labels_are_cut_at_their_limits() {
    let folder = Folder::new("names");
    let name: &'static str = "ä".repeat(100).leak();
    let metrics = [Metric { name, kind: MetricKind::Gauge }];
    let path = folder.file("a.page");
    let (_page, _writers) = Page::create(&path, name, Duration::MAX, &metrics, (0, SeriesShape::default())).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.metrics(), [("ä".repeat(31), MetricKind::Gauge)]);
    assert_eq!(reader.label(), "ä".repeat(32));
    assert!(reader.snapshot().unwrap().silos.is_empty());
    let many = vec![metrics[0]; METRICS_LIMIT + 1];
    let too_many = Page::create(&folder.file("b"), "", Duration::ZERO, &many, (1, SeriesShape::default()));
    assert!(matches!(too_many, Err(PageError::TooLarge)));
    let most =
        Page::create(&folder.file("b"), "", Duration::ZERO, &many[1..], (SILOS_LIMIT, SeriesShape::default())).unwrap();
    assert_eq!(most.1.len(), SILOS_LIMIT);
}

#[test]
fn the_usual_folder_is_ours_alone() {
    let folder = usual_folder().unwrap();
    let metadata = fs::symlink_metadata(&folder).unwrap();
    assert!(metadata.is_dir() && metadata.mode() & 0o022 == 0);
    assert!(usual_path().unwrap().starts_with(&folder));
    assert!(living(&folder).is_ok());
    assert!(usual_folders().unwrap().contains(&folder) && living_of_user().is_ok());
}

/// Whoever makes a folder first could read and change what lies in it.
#[test]
fn a_folder_of_somebody_elses_is_not_used() {
    let folder = Folder::new("usual");
    let uid = rustix::process::getuid().as_raw();
    let path = folder.file("made");
    assert_eq!(place::make(path.clone(), uid).unwrap(), path);
    assert_eq!(place::make(path.clone(), uid).unwrap(), path, "made before");
    let why = place::make(path.clone(), uid + 1).unwrap_err().to_string();
    assert!(why.contains(&format!("is user {uid}'s, who made it first")), "{why}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o770)).unwrap();
    assert!(place::make(path.clone(), uid).unwrap_err().to_string().contains("may be written to by others"));
    let link = folder.file("link");
    std::os::unix::fs::symlink("/", &link).unwrap();
    assert!(place::make(link, uid).unwrap_err().to_string().contains("is no folder"));
    let why = place::make(folder.file("none/inner"), uid).unwrap_err().to_string();
    assert!(why.contains("cannot make"), "{why}");
}

/// Anybody may make folders there, under any name that he knows.
#[test]
fn another_name_is_taken_where_somebody_else_was_first() {
    let folder = Folder::new("squatted");
    let within = folder.file("shm");
    fs::create_dir(&within).unwrap();
    let uid = rustix::process::getuid().as_raw();
    let plain = within.join(format!("nearside-{uid}"));
    let sticky = || fs::set_permissions(&within, fs::Permissions::from_mode(0o1777)).unwrap();
    fs::set_permissions(&within, fs::Permissions::from_mode(0o777)).unwrap();
    let why = place::shared(&within, uid).unwrap_err().to_string();
    assert!(why.contains("others may move what is in"), "{why}");
    sticky();
    assert_eq!(place::shared(&within, uid).unwrap(), plain);
    fs::remove_dir(&plain).unwrap();
    let victim = folder.file("victim");
    fs::create_dir(&victim).unwrap();
    let mut others = Vec::new();
    for squat in ["file", "link", "pipe", "hard link", "loose", "theirs"] {
        match squat {
            "file" => fs::write(&plain, "").unwrap(),
            "link" => std::os::unix::fs::symlink(&victim, &plain).unwrap(),
            "pipe" => mknodat(CWD, &plain, FileType::Fifo, Mode::RWXU, 0).unwrap(),
            "hard link" => {
                fs::write(folder.file("of old"), "").unwrap();
                fs::hard_link(folder.file("of old"), &plain).unwrap();
            }
            "loose" => {
                fs::create_dir(&plain).unwrap();
                fs::set_permissions(&plain, fs::Permissions::from_mode(0o777)).unwrap();
            }
            _ => {
                fs::create_dir(&plain).unwrap();
                // Only root can give it away.
                if std::os::unix::fs::chown(&plain, Some(4_321), None).is_err() {
                    continue;
                }
            }
        }
        let other = place::shared(&within, uid).unwrap();
        assert!(other.to_string_lossy().starts_with(&format!("{}.", plain.display())), "{squat}: {other:?}");
        assert_eq!(place::shared(&within, uid).unwrap(), other, "{squat}: the next process finds it");
        assert_eq!(fs::symlink_metadata(&other).unwrap().mode() & 0o777, 0o700);
        let _ = fs::remove_file(&plain).or_else(|_| fs::remove_dir(&plain));
        assert_eq!(place::shared(&within, uid).unwrap(), other, "{squat}: and when the name is free again");
        fs::remove_dir(&other).unwrap();
        others.push(other);
    }
    others.dedup();
    assert!(others.len() >= 5, "nobody knows the next name: {others:?}");
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
}

/// A page's writer has perhaps given its rights up, or is no longer ours.
#[test]
fn what_a_page_says_is_no_command_to_a_terminal() {
    let folder = Folder::new("terminal");
    let hostile = [Metric { name: "a\x1b[2J\nb", kind: MetricKind::Gauge }];
    let shape = SeriesShape { count: 1, words: 1 };
    let label = "x\r\x1b]0;title\x07\u{9b}y";
    let (mut page, _) = Page::create(&folder.file("a"), label, Duration::ZERO, &hostile, (1, shape)).unwrap();
    page.tell(Duration::ZERO, false, "note\x1b[31m\n");
    page.series().set_name(0, 0, "host\tseries\x1b\0");
    let reader = Reader::open(page.path()).unwrap();
    let texts = [
        reader.label().to_owned(),
        reader.metrics()[0].0.clone(),
        reader.note().unwrap().unwrap().text,
        reader.series().unwrap()[0].name.clone(),
    ];
    assert!(texts[3].starts_with("host\tseries"), "{texts:?}");
    for text in texts {
        assert!(!text.contains(|one: char| one.is_control() && one != '\t') && text.len() > 3, "{text:?}");
    }
}

/// Who may write to the folder may put anything in a page's place.
#[test]
fn nobody_waits_for_what_is_no_file() {
    let folder = Folder::new("no-file");
    mknodat(CWD, folder.file("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    std::os::unix::fs::symlink("/dev/zero", folder.file("endless")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(folder.file("socket")).unwrap();
    for name in ["pipe", "endless", "socket"] {
        assert!(Reader::open(&folder.file(name)).is_err(), "{name}");
        assert!(create(&folder.file(name), 1).is_err(), "{name}");
    }
}

#[test]
fn series_are_read_as_they_grow() {
    let folder = Folder::new("series");
    let shape = SeriesShape { count: 3, words: 5 };
    let (page, _writers) = Page::create(&folder.file("a"), "", Duration::ZERO, &METRICS, (2, shape)).unwrap();
    let (file, own) = (Reader::open(page.path()).unwrap(), page.reader().unwrap());
    assert_eq!(file.series().unwrap(), []);
    let area = page.series();
    area.set_name(0, 0, "first");
    area.set_name(1, 7, &"x".repeat(1_000));
    area.set_name(3, 0, "there is no such");
    area.silo(1).words()[5].store(7, Ordering::Relaxed);
    area.silo(0).words()[0].store(u64::MAX, Ordering::Relaxed);
    assert_eq!([0, 1, 2].map(|silo| area.silo(silo).words().len()), [15, 15, 0]);
    for reader in [&file, &own] {
        let series = reader.series().unwrap();
        assert_eq!(series.len(), 2);
        let silos = vec![vec![u64::MAX, 0, 0, 0, 0], vec![0; 5]];
        assert_eq!(series[0], NamedSeries { name: "first".to_owned(), generation: 0, silos });
        assert_eq!((series[1].name.len(), series[1].silos[1][0]), (SERIES_NAME_BYTES - WORD, 7));
        assert_eq!(series[1].generation, 7);
        assert_eq!(reader.note().unwrap(), None, "they lie apart");
    }
    area.clear_name(0);
    assert_eq!(own.series().unwrap().iter().map(|one| one.generation).collect::<Vec<_>>(), [7], "one is nobody's");
    area.set_name(0, 1, "second");
    let names: Vec<_> = file.series().unwrap().into_iter().map(|one| (one.name.len(), one.generation)).collect();
    assert_eq!(names, [(6, 1), (SERIES_NAME_BYTES - WORD, 7)]);
    let large = SeriesShape { count: 1 << 20, words: 1 << 20 };
    assert!(matches!(
        Page::create(&folder.file("b"), "", Duration::ZERO, &METRICS, (1, large)),
        Err(PageError::TooLarge)
    ));
}

#[test]
fn samples_are_given_to_whoever_asks() {
    let folder = Folder::new("samples");
    let shape = PageShape { silos: 2, series: SeriesShape::default(), samples: SampleShape { count: 3, words: 2 } };
    let path = folder.file("a.page");
    let (page, mut writers) = Page::create(&path, "", Duration::ZERO, &METRICS, shape).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert!(reader.has_samples());
    let now = Time::from_millis(5);
    assert_eq!((writers[1].asked(now), reader.samples(1).unwrap()), (None, None));
    let number = reader.ask().unwrap();
    assert_eq!(writers[1].asked(now), Some(number));
    // Too long, too short, and one too many.
    let clock = core::cell::Cell::new(now);
    let tick = || clock.replace(clock.get() + Duration::from_micros(7));
    writers[1].answer(tick, number, 100, |give| [&[1, 2, 3][..], &[4], &[5, 6], &[7, 8]].into_iter().for_each(give));
    let given = reader.samples(1).unwrap().expect("an answer");
    let samples = vec![vec![1, 2], vec![4, 0], vec![5, 6]];
    assert_eq!(given, Samples { number, time: now, took: Duration::from_micros(7), total: 100, samples });
    assert!(given.answers(number) && !given.answers(number + 1));
    assert_eq!(reader.samples(0).unwrap(), None, "the neighbour has not answered");
    // The values of silos are theirs.
    assert!(reader.snapshot().unwrap().silos.iter().all(|silo| silo.time.is_none()));
    // Not at once again, whoever asks.
    let next = Reader::open(&path).unwrap().ask().unwrap();
    assert_eq!((next, writers[1].asked(now + Duration::from_millis(249))), (number + 1, None));
    assert_eq!(writers[1].asked(now + Duration::from_millis(250)), Some(next));
    assert!(matches!(page.reader().unwrap().ask(), Err(PageError::NotAsked(_))), "there is no file");
    assert!(!Reader::open(create(&folder.file("b"), 1).unwrap().0.path()).unwrap().has_samples());
}

#[test]
fn a_shared_page_is_other_processes_to_fill() {
    let shape = PageShape { silos: 2, series: SeriesShape::default(), samples: SampleShape { count: 1, words: 1 } };
    let (page, mut own, file, hidden) = Page::create_shared("run x", Duration::ZERO, &METRICS, shape).unwrap();
    assert!(hidden.is_none(), "{hidden:?}");
    let reader = living_of_user().unwrap().into_iter().find(|reader| reader.label() == "run x").expect("it is found");
    assert_eq!((reader.pid(), reader.is_alive()), (std::process::id(), true));
    let given = |silo| Writer::given(file.try_clone().unwrap(), silo);
    let (mut theirs, names) = given(1).unwrap();
    assert_eq!(names, METRICS.map(|metric| metric.name));
    assert!(matches!(given(2), Err(PageError::NotAPage)), "there is no such silo");
    // It cannot be made shorter, by whoever has it.
    assert!(File::from(file.try_clone().unwrap()).set_len(0).is_err());
    theirs.publish(Time::from_millis(1), &[1, 2, 3]);
    let number = reader.ask().unwrap();
    assert_eq!(theirs.asked(Time::from_millis(1)), Some(number));
    theirs.answer(|| Time::ZERO, number, 1, |give| give(&[9]));
    assert_eq!(reader.samples(1).unwrap().expect("an answer").samples, [[9]]);
    // One that is killed amid its stores is followed by another, whose values are whole.
    theirs.mapping.words()[theirs.block].fetch_add(1, Ordering::Relaxed);
    own[1].publish(Time::from_millis(2), &[0; 3]);
    let silo = reader.snapshot().unwrap().silos.remove(1);
    assert!(silo.consistent && silo.values == [0; 3], "{silo:?}");
    // Any file is not one.
    let other = OwnedFd::from(File::from(memfd_create("other", MemfdFlags::CLOEXEC).unwrap()));
    assert!(matches!(Writer::given(other, 0), Err(PageError::NotAPage)));
    let path = page.path().to_owned();
    assert!(path.is_symlink());
    drop(page);
    assert!(!path.is_symlink() && living_of_user().unwrap().iter().all(|reader| reader.label() != "run x"));
}

#[test]
fn links_to_pages_of_dead_processes_are_swept() {
    let folder = Folder::new("links");
    let (_page, _writers) = create(&folder.file("1.page"), 1).unwrap();
    std::os::unix::fs::symlink("/proc/4194305/fd/3", folder.file("2.page")).unwrap();
    std::os::unix::fs::symlink(folder.file("1.page"), folder.file("3.page")).unwrap();
    assert_eq!(living(&folder.0).unwrap().len(), 2);
    assert!(!folder.file("2.page").is_symlink() && folder.file("3.page").is_symlink());
}
