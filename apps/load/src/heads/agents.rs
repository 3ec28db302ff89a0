//! The fields of clients, with places for what differs between two of a kind.

use super::Heads;

/// A decimal digit.
const DIGIT: u8 = b'#';
/// A hexadecimal digit: the first sixteen are the client's number, so no two
/// clients send the same.
const HEX: u8 = b'^';

const SHORT: [&str; 8] = [
    "",
    "Cookie: s=^^^^^^^^^^^^^^^^\r\n",
    "User-Agent: probe/1.##.^^^^^^^^\r\n",
    "User-Agent: a/2.####\r\nCookie: s=^^^^^^^^^^^^^^^^\r\n",
    "User-Agent: client/3.##.####\r\nCookie: s=^^^^^^^^^^^^^^^^\r\n",
    "User-Agent: fetch/8.##.#\r\nAccept: */*\r\nCookie: id=^^^^^^^^^^^^^^^^\r\n",
    "User-Agent: http-client/1.##.####\r\nAccept: */*\r\nCookie: sid=^^^^^^^^^^^^^^^^\r\n",
    "User-Agent: app/5.##.# (Linux; arm64)\r\nAccept: text/html, */*\r\nCookie: session=^^^^^^^^^^^^^^^^\r\n",
];

/// In the order of each browser, after Host and Connection.
const BROWSER: [&str; 4] = [
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:1##.0) Gecko/20100101 Firefox/1##.#\r\n\
     Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
     Accept-Language: en-US,en;q=0.5\r\n\
     Accept-Encoding: gzip, deflate\r\n\
     Referer: http://www.example.com/articles/1###/##?page=#\r\n\
     Cookie: session=^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^; theme=light; visits=##; \
     ref=^^^^^^^^^^^^^^^^; region=eu-west; seen=1#########\r\n\
     Upgrade-Insecure-Requests: 1\r\n\
     Sec-Fetch-Dest: document\r\n\
     Sec-Fetch-Mode: navigate\r\n\
     Sec-Fetch-Site: same-origin\r\n",
    "Cache-Control: max-age=0\r\n\
     Upgrade-Insecure-Requests: 1\r\n\
     User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) \
     Chrome/1##.0.####.## Safari/537.36\r\n\
     Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
     DNT: 1\r\n\
     Referer: http://www.example.com/search?q=^^^^^^\r\n\
     Accept-Encoding: gzip, deflate\r\n\
     Accept-Language: de-DE,de;q=0.9,en;q=0.8\r\n\
     Cookie: _id=^^^^^^^^^^^^^^^^; _ga=GA1.1.1########.1#########; exp=^^^^^^^^; theme=dark; consent=yes\r\n\
     Priority: u=0, i\r\n",
    "User-Agent: Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) \
     Version/1#.# Safari/605.1.##\r\n\
     Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
     Upgrade-Insecure-Requests: 1\r\n\
     Sec-Fetch-Dest: document\r\n\
     Sec-Fetch-Mode: navigate\r\n\
     Sec-Fetch-Site: same-origin\r\n\
     Referer: http://www.example.com/shop/item-1####\r\n\
     Accept-Language: fr-FR,fr;q=0.9\r\n\
     Accept-Encoding: gzip, deflate\r\n\
     Cookie: sid=^^^^^^^^^^^^^^^^^^^^^^^^; basket=##; lang=fr; ab=^^^^^^^^; region=eu-south; first=1#########\r\n",
    "Upgrade-Insecure-Requests: 1\r\n\
     User-Agent: Mozilla/5.0 (Linux; Android 1#; SM-G9##B) AppleWebKit/537.36 (KHTML, like Gecko) \
     Chrome/1##.0.#### Mobile Safari/537.36\r\n\
     Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8\r\n\
     Save-Data: on\r\n\
     X-Requested-With: com.example.reader\r\n\
     Referer: http://m.example.com/feed?offset=###\r\n\
     Accept-Encoding: gzip, deflate\r\n\
     Accept-Language: en-GB,en;q=0.9,pt;q=0.7\r\n\
     Cookie: token=^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^; variant=^^; region=eu-w; seen=1#########\r\n\
     Cache-Control: max-age=0\r\n",
];

/// The fields of one kind of client.
#[derive(Debug)]
pub struct UserAgent {
    bytes: Vec<u8>,
    /// Where in them something differs.
    places: Vec<u16>,
}

impl UserAgent {
    /// All kinds of clients, without the fields of these names.
    pub fn all(heads: Heads, named: &[&str]) -> Vec<Self> {
        let texts: &[&str] = match heads {
            Heads::Equal => &[],
            Heads::Short => &SHORT,
            Heads::Browser => &BROWSER,
        };
        texts.iter().map(|text| Self::without(text, named)).collect()
    }

    fn without(text: &str, named: &[&str]) -> Self {
        let kept = |line: &&str| {
            let name = line.split(':').next().unwrap_or_default();
            !named.iter().any(|named| named.eq_ignore_ascii_case(name))
        };
        let bytes: Vec<u8> = text.split_inclusive("\r\n").filter(kept).collect::<String>().into_bytes();
        let place = |(at, byte): (usize, &u8)| matches!(*byte, DIGIT | HEX).then_some(at as u16);
        let places = bytes.iter().enumerate().filter_map(place).collect();
        Self { bytes, places }
    }

    /// Bytes of the fields.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends the fields of the client with this number.
    pub fn write(&self, number: u64, out: &mut Vec<u8>) {
        let from = out.len();
        out.extend_from_slice(&self.bytes);
        let Some(written) = out.get_mut(from..) else { return };
        let (mut hex, mut digits) = (number, number | 1);
        for &place in &self.places {
            let Some(byte) = written.get_mut(usize::from(place)) else { continue };
            *byte = if *byte == HEX {
                hex = hex.rotate_left(4);
                b"0123456789abcdef"[(hex & 15) as usize]
            } else {
                // Knuth's MMIX; its upper bits are the good ones.
                digits = digits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                b'0' + (((digits >> 32) * 10) >> 32) as u8
            };
        }
    }
}
