//! A small DNS client: it shares no code with the server.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

pub(crate) const A: u16 = 1;
pub(crate) const NS: u16 = 2;
pub(crate) const CNAME: u16 = 5;
pub(crate) const SOA: u16 = 6;
pub(crate) const TXT: u16 = 16;
pub(crate) const AAAA: u16 = 28;
pub(crate) const OPT: u16 = 41;
pub(crate) const ANY: u16 = 255;
pub(crate) const CAA: u16 = 257;

pub(crate) const NOERROR: u8 = 0;
pub(crate) const FORMERR: u8 = 1;
pub(crate) const NXDOMAIN: u8 = 3;
pub(crate) const NOTIMP: u8 = 4;
pub(crate) const REFUSED: u8 = 5;

const PATIENCE: Duration = Duration::from_secs(20);

/// A question in the making.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) name: String,
    pub(crate) kind: u16,
    pub(crate) class: u16,
    pub(crate) edns: Option<Vec<u8>>,
    pub(crate) udp_size: u16,
    pub(crate) dnssec: bool,
}

pub(crate) fn ask(name: &str, kind: u16) -> Ask {
    Ask { name: name.to_owned(), kind, class: 1, edns: None, udp_size: 1232, dnssec: false }
}

impl Ask {
    pub(crate) fn edns(mut self) -> Self {
        self.edns.get_or_insert_default();
        self
    }

    /// With signatures.
    pub(crate) fn dnssec(mut self) -> Self {
        self.dnssec = true;
        self.edns()
    }

    pub(crate) fn option(mut self, code: u16, value: &[u8]) -> Self {
        let options = self.edns.get_or_insert_default();
        options.extend(code.to_be_bytes());
        options.extend((value.len() as u16).to_be_bytes());
        options.extend(value);
        self
    }

    /// With a client subnet.
    pub(crate) fn subnet(self, address: &str, prefix: u8) -> Self {
        let address: IpAddr = address.parse().unwrap();
        let (family, octets) = match address {
            IpAddr::V4(address) => (1, address.octets().to_vec()),
            IpAddr::V6(address) => (2, address.octets().to_vec()),
        };
        let mut value = vec![0, family, prefix, 0];
        value.extend(&octets[..usize::from(prefix).div_ceil(8)]);
        self.option(8, &value)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut packet = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(self.edns.is_some())];
        packet.extend(encode(&self.name));
        packet.extend(self.kind.to_be_bytes());
        packet.extend(self.class.to_be_bytes());
        if let Some(options) = &self.edns {
            packet.push(0);
            packet.extend(OPT.to_be_bytes());
            packet.extend(self.udp_size.to_be_bytes());
            packet.extend([0, 0, if self.dnssec { 0x80 } else { 0 }, 0]);
            packet.extend((options.len() as u16).to_be_bytes());
            packet.extend(options);
        }
        packet
    }

    pub(crate) fn udp(&self, server: SocketAddr) -> Answer {
        let bytes = exchange(server, &self.bytes()).expect("an answer");
        Answer::read(&bytes)
    }

    pub(crate) fn tcp(&self, server: SocketAddr) -> Answer {
        let mut stream = TcpStream::connect(server).unwrap();
        over_tcp(&mut stream, &self.bytes())
    }
}

/// Sends a packet and waits for the answer, for as long as it takes.
pub(crate) fn exchange(server: SocketAddr, packet: &[u8]) -> std::io::Result<Vec<u8>> {
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.connect(server)?;
    socket.send(packet)?;
    let mut buffer = vec![0; 65535];
    let length = socket.recv(&mut buffer)?;
    buffer.truncate(length);
    Ok(buffer)
}

pub(crate) fn over_tcp(stream: &mut TcpStream, packet: &[u8]) -> Answer {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&[&(packet.len() as u16).to_be_bytes(), packet].concat()).unwrap();
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut bytes).unwrap();
    Answer::read(&bytes)
}

pub(crate) fn encode(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) kind: u16,
    pub(crate) ttl: u32,
    pub(crate) data: Vec<u8>,
    /// The data where it is an address or a name.
    pub(crate) text: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) rcode: u8,
    pub(crate) authoritative: bool,
    pub(crate) truncated: bool,
    pub(crate) recursion_available: bool,
    /// As it came back, upper and lower case and all.
    pub(crate) question: String,
    pub(crate) answers: Vec<Record>,
    pub(crate) authorities: Vec<Record>,
    pub(crate) additionals: Vec<Record>,
    pub(crate) length: usize,
}

impl Answer {
    pub(crate) fn read(bytes: &[u8]) -> Self {
        assert_eq!(&bytes[..2], [0x12, 0x34], "the number is the question's");
        assert!(bytes[2] & 0x80 != 0, "it is an answer");
        let count = |at: usize| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        let mut at = 12;
        let mut question = String::new();
        if count(4) == 1 {
            (question, at) = decode(bytes, at);
            at += 4;
        }
        let mut section = |records: usize| {
            let mut found = Vec::new();
            for _ in 0..records {
                let (name, after) = decode(bytes, at);
                let kind = u16::from_be_bytes([bytes[after], bytes[after + 1]]);
                let ttl = u32::from_be_bytes(bytes[after + 4..after + 8].try_into().unwrap());
                let length = count(after + 8);
                let start = after + 10;
                let data = bytes[start..start + length].to_vec();
                let text = match kind {
                    A => IpAddr::from(<[u8; 4]>::try_from(&data[..]).unwrap()).to_string(),
                    AAAA => IpAddr::from(<[u8; 16]>::try_from(&data[..]).unwrap()).to_string(),
                    NS | CNAME => decode(bytes, start).0,
                    _ => String::new(),
                };
                at = start + length;
                found.push(Record { name, kind, ttl, data, text });
            }
            found
        };
        let (answers, authorities) = (section(count(6)), section(count(8)));
        let additionals = section(count(10));
        assert_eq!(at, bytes.len(), "nothing is left over");
        Self {
            rcode: bytes[3] & 0x0F,
            authoritative: bytes[2] & 4 != 0,
            truncated: bytes[2] & 2 != 0,
            recursion_available: bytes[3] & 0x80 != 0,
            question,
            answers,
            authorities,
            additionals,
            length: bytes.len(),
        }
    }

    /// The answers as text, in order.
    pub(crate) fn texts(&self) -> Vec<&str> {
        self.answers.iter().map(|record| record.text.as_str()).collect()
    }

    pub(crate) fn option(&self, code: u16) -> Option<Vec<u8>> {
        let opt = self.additionals.iter().find(|record| record.kind == OPT)?;
        let mut rest = &opt.data[..];
        while let [high, low, length_high, length_low, more @ ..] = rest {
            let length = usize::from(u16::from_be_bytes([*length_high, *length_low]));
            if u16::from_be_bytes([*high, *low]) == code {
                return Some(more[..length].to_vec());
            }
            rest = &more[length..];
        }
        None
    }

    /// The scope of the client subnet.
    pub(crate) fn scope(&self) -> Option<u8> {
        self.option(8).map(|value| value[3])
    }
}

fn decode(bytes: &[u8], mut at: usize) -> (String, usize) {
    let mut name = String::new();
    let mut end = None;
    loop {
        match bytes[at] {
            0 => break,
            length if length >= 0xC0 => {
                end.get_or_insert(at + 2);
                at = usize::from(u16::from_be_bytes([length & 0x3F, bytes[at + 1]]));
            }
            length => {
                let label = &bytes[at + 1..at + 1 + usize::from(length)];
                name.push_str(&String::from_utf8_lossy(label));
                name.push('.');
                at += 1 + usize::from(length);
            }
        }
    }
    (name, end.unwrap_or(at + 1))
}
