//! The PROXY protocol, version 2: who the client is, said by a load balancer in front.

use std::io::{Error, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::{AsyncRead, AsyncReadExt};

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// Addresses and extensions of one header, at most. The specification asks for 216.
const LONGEST: usize = 1024;

/// Reads the header. No address means that the load balancer speaks for itself.
pub(super) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
) -> std::io::Result<Option<SocketAddr>> {
    let mut head = [0; 16];
    stream.read_exact(&mut head).await?;
    let length = usize::from(u16::from_be_bytes([head[14], head[15]]));
    if head[..12] != SIGNATURE || head[12] >> 4 != 2 || length > LONGEST {
        return Err(Error::new(ErrorKind::InvalidData, "not a PROXY header of version 2"));
    }
    let mut rest = vec![0; length];
    stream.read_exact(&mut rest).await?;
    parse(head[12] & 0xf, head[13], &rest)
}

fn parse(command: u8, family: u8, rest: &[u8]) -> std::io::Result<Option<SocketAddr>> {
    let wrong = || Error::new(ErrorKind::InvalidData, "a malformed PROXY header");
    match (command, family) {
        (0, _) => Ok(None),
        (1, 0x11) => {
            let ip: [u8; 4] = rest.get(..4).ok_or_else(wrong)?.try_into().map_err(|_| wrong())?;
            let port = rest.get(8..10).ok_or_else(wrong)?;
            let port = u16::from_be_bytes([port[0], port[1]]);
            Ok(Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(ip)), port)))
        }
        (1, 0x21) => {
            let ip: [u8; 16] = rest.get(..16).ok_or_else(wrong)?.try_into().map_err(|_| wrong())?;
            let port = rest.get(32..34).ok_or_else(wrong)?;
            let port = u16::from_be_bytes([port[0], port[1]]);
            Ok(Some(SocketAddr::new(IpAddr::V6(Ipv6Addr::from(ip)), port)))
        }
        // Unix sockets and what is unspecified have no address to tell.
        (1, _) => Ok(None),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[0x20 | command, family], &length, rest].concat()
    }

    async fn read_all(bytes: &[u8]) -> (std::io::Result<Option<SocketAddr>>, usize) {
        let mut left = bytes;
        let read = read(&mut left).await;
        (read, left.len())
    }

    #[tokio::test]
    async fn the_client_is_who_the_load_balancer_names() {
        let v4 = header(1, 0x11, &[10, 1, 2, 3, 10, 0, 0, 1, 0x1f, 0x90, 0, 80]);
        let (named, _) = read_all(&v4).await;
        assert_eq!(named.unwrap(), Some("10.1.2.3:8080".parse().unwrap()));
        let mut v6 = [0; 36];
        (v6[15], v6[33]) = (1, 80);
        // What follows the addresses is skipped, and what follows the header is left alone.
        let with_extension = [&v6[..], &[4, 0, 1, 0]].concat();
        let bytes = [header(1, 0x21, &with_extension), b"GET /".to_vec()].concat();
        let (named, left) = read_all(&bytes).await;
        assert_eq!((named.unwrap(), left), (Some("[::1]:80".parse().unwrap()), 5));
        assert_eq!(read_all(&header(0, 0, &[])).await.0.unwrap(), None);
    }

    #[tokio::test]
    async fn what_is_no_header_is_refused() {
        for bytes in [
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n".to_vec(),
            header(1, 0x11, &[10, 0, 0]),
            header(2, 0x11, &[0; 12]),
            header(1, 0x11, &[0; 1025]),
        ] {
            assert!(read_all(&bytes).await.0.is_err(), "{bytes:?}");
        }
    }

    /// The header that names a client.
    fn naming(client: SocketAddr, extensions: &[u8]) -> Vec<u8> {
        let port = client.port().to_be_bytes();
        let (family, ip, other) = match client.ip() {
            IpAddr::V4(ip) => (0x11, ip.octets().to_vec(), vec![9; 4]),
            IpAddr::V6(ip) => (0x21, ip.octets().to_vec(), vec![9; 16]),
        };
        header(1, family, &[&ip[..], &other, &port, &[0, 80], extensions].concat())
    }

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
    }

    proptest! {
        #[test]
        fn only_a_proxied_tcp_connection_names_a_client(
            command in 0_u8..4,
            family in prop_oneof![Just(0x11_u8), Just(0x21), any::<u8>()],
            rest: Vec<u8>,
        ) {
            match parse(command, family, &rest) {
                Ok(Some(client)) => {
                    prop_assert_eq!(command, 1);
                    prop_assert_eq!(family, if client.is_ipv4() { 0x11 } else { 0x21 });
                }
                Ok(None) => prop_assert!(command < 2),
                Err(error) => prop_assert_eq!(error.kind(), ErrorKind::InvalidData),
            }
        }

        #[test]
        fn whoever_is_named_is_read_in_one_piece_or_two(
            ip: IpAddr, port: u16,
            extensions in prop::collection::vec(any::<u8>(), 0..900),
            behind: Vec<u8>, cut: prop::sample::Index,
        ) {
            let client = SocketAddr::new(ip, port);
            let bytes = [naming(client, &extensions), behind.clone()].concat();
            let (first, second) = bytes.split_at(cut.index(bytes.len()));
            let (named, left) = block_on(async {
                let mut stream = first.chain(second);
                let named = read(&mut stream).await;
                let mut left = Vec::new();
                stream.read_to_end(&mut left).await.unwrap();
                (named, left)
            });
            prop_assert_eq!(named.unwrap(), Some(client));
            prop_assert_eq!(left, behind);
        }

        #[test]
        fn streams_are_read_no_further_than_the_longest_header(
            start in prop_oneof![Just(SIGNATURE.to_vec()), prop::collection::vec(any::<u8>(), 0..16)],
            rest in prop::collection::vec(any::<u8>(), 2000..4000),
        ) {
            let bytes = [start, rest].concat();
            let (_, left) = block_on(read_all(&bytes));
            prop_assert!(bytes.len() - left <= 16 + LONGEST);
        }
    }
}
