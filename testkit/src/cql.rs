//! The part of Cassandra's protocol (version 4) that setting up and inspecting nodes needs.

use std::fmt;
use std::io::{Error, ErrorKind};
use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A frozen node never responds; a busy one takes seconds for a change of the schema.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The default user and password of a node that requires a login.
const USER: &str = "\0cassandra\0cassandra";

/// A row: the bytes of each column, or `None` if it is null.
pub type Row = Vec<Option<Vec<u8>>>;

/// A consistency level: how many replicas take part in a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Consistency {
    /// One replica.
    One = 1,
    /// More than half of the replicas.
    Quorum = 4,
    /// Every replica.
    All = 5,
    /// More than half of the replicas, after any lightweight transaction in progress. For reads.
    Serial = 8,
}

/// Why a query failed.
#[derive(Debug)]
pub enum CqlError {
    /// The node returned an error.
    Answer {
        /// The code in the protocol, such as `0x1000`: not enough replicas.
        code: i32,
        /// The message.
        message: String,
    },
    /// The connection failed, or the node did not respond.
    Connection(Error),
}

impl fmt::Display for CqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer { code, message } => write!(f, "{code:#06x}: {message}"),
            Self::Connection(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CqlError {}

impl From<Error> for CqlError {
    fn from(error: Error) -> Self {
        Self::Connection(error)
    }
}

/// Opcodes of messages.
mod opcode {
    pub(super) const ERROR: u8 = 0x00;
    pub(super) const STARTUP: u8 = 0x01;
    pub(super) const AUTHENTICATE: u8 = 0x03;
    pub(super) const QUERY: u8 = 0x07;
    pub(super) const AUTH_RESPONSE: u8 = 0x0f;
}

/// Sends a query on a connection of its own. If the node requires a login, as the default user.
pub(crate) async fn query(
    address: (Ipv4Addr, u16),
    query: &str,
    consistency: Consistency,
) -> Result<Vec<Row>, CqlError> {
    let conversation = async {
        let mut stream = TcpStream::connect(address).await?;
        let startup = [&1_u16.to_be_bytes()[..], &short("CQL_VERSION"), &short("3.0.0")].concat();
        let (reply, _) = send(&mut stream, opcode::STARTUP, &startup).await?;
        if reply == opcode::AUTHENTICATE {
            send(&mut stream, opcode::AUTH_RESPONSE, &long(USER)).await?;
        }
        // Flag 2: rows without column metadata.
        let body = [&long(query)[..], &[0, consistency as u8, 2]].concat();
        let (_, result) = send(&mut stream, opcode::QUERY, &body).await?;
        Ok(rows(&mut Body(&result))?)
    };
    tokio::time::timeout(TIMEOUT, conversation)
        .await
        .unwrap_or_else(|_| Err(Error::from(ErrorKind::TimedOut).into()))
}

/// Sends a message, and returns the opcode and the body of the reply.
async fn send(stream: &mut TcpStream, opcode: u8, body: &[u8]) -> Result<(u8, Vec<u8>), CqlError> {
    let length = u32::try_from(body.len()).expect("a short message").to_be_bytes();
    stream.write_all(&[&[4, 0, 0, 0, opcode], &length[..], body].concat()).await?;

    let mut header = [0; 9];
    stream.read_exact(&mut header).await?;
    let [_, flags, _, _, opcode, length @ ..] = header;
    let mut bytes = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut bytes).await?;
    let mut body = Body(&bytes);
    // Flag 8: warnings come first.
    if flags & 8 != 0 {
        for _ in 0..body.short()? {
            body.string()?;
        }
    }
    if opcode == opcode::ERROR {
        return Err(CqlError::Answer { code: body.int()?, message: body.string()? });
    }
    Ok((opcode, body.0.to_vec()))
}

/// Returns the rows of a result; none if the result is of another kind.
fn rows(result: &mut Body<'_>) -> Result<Vec<Row>, Error> {
    const ROWS: i32 = 2;
    if result.int()? != ROWS {
        return Ok(Vec::new());
    }
    let (_flags, columns, rows) = (result.int()?, result.int()?, result.int()?);
    (0..rows).map(|_| (0..columns).map(|_| result.bytes()).collect()).collect()
}

/// The unread rest of a message.
struct Body<'a>(&'a [u8]);

impl Body<'_> {
    fn take(&mut self, length: usize) -> Result<&[u8], Error> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(ErrorKind::UnexpectedEof)?;
        self.0 = rest;
        Ok(taken)
    }

    fn short(&mut self) -> Result<u16, Error> {
        Ok(u16::from_be_bytes(self.take(2)?.try_into().expect("two bytes")))
    }

    fn int(&mut self) -> Result<i32, Error> {
        Ok(i32::from_be_bytes(self.take(4)?.try_into().expect("four bytes")))
    }

    fn string(&mut self) -> Result<String, Error> {
        let length = self.short()?;
        Ok(String::from_utf8_lossy(self.take(length.into())?).into_owned())
    }

    /// Reads bytes; a negative length stands for null.
    fn bytes(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let length = usize::try_from(self.int()?).ok();
        length.map(|length| Ok(self.take(length)?.to_vec())).transpose()
    }
}

/// Returns a text after its length in two bytes.
fn short(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).expect("a short text").to_be_bytes();
    [&length[..], text.as_bytes()].concat()
}

/// Returns a text after its length in four bytes.
fn long(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).expect("a text of a query's length").to_be_bytes();
    [&length[..], text.as_bytes()].concat()
}
