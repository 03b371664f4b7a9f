//! The part of the Redis protocol that setting up and inspecting servers needs.

use std::io::{Error, ErrorKind, Result};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A frozen server never responds.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A reply of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A simple or a bulk string.
    Text(String),
    /// An error, such as `MOVED 42 127.0.0.1:7000`.
    Error(String),
    /// A number.
    Integer(i64),
    /// No value.
    Null,
    /// Several replies.
    List(Vec<Reply>),
}

impl Reply {
    /// Returns the text of a string or an error; of any other reply its debug output.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) | Self::Error(text) => text.clone(),
            Self::Integer(number) => number.to_string(),
            Self::Null | Self::List(_) => format!("{self:?}"),
        }
    }

    /// Returns the items of a list as texts; of any other reply none.
    pub fn texts(&self) -> Vec<String> {
        match self {
            Self::List(items) => items.iter().map(Self::text).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the value of a field in lines of `name:value`, the format of `INFO` and `CLUSTER INFO`.
    pub fn field(&self, name: &str) -> Option<String> {
        self.text().lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.to_owned()))
    }
}

/// Sends commands on a connection of their own, one after the other, and returns the last reply.
pub(crate) async fn call(port: u16, commands: &[&[&str]]) -> Result<Reply> {
    let conversation = async {
        let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", port)).await?);
        let mut last = Reply::Null;
        for command in commands {
            let mut request = vec![format!("*{}\r\n", command.len())];
            request.extend(command.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())));
            stream.write_all(request.concat().as_bytes()).await?;
            last = reply(&mut stream).await?;
        }
        Ok(last)
    };
    tokio::time::timeout(TIMEOUT, conversation).await.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}

async fn reply(stream: &mut BufReader<TcpStream>) -> Result<Reply> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let malformed = || Error::new(ErrorKind::InvalidData, format!("not a reply: {line:?}"));
    let (kind, rest) = line.trim_end().split_at_checked(1).ok_or_else(malformed)?;
    let number = || rest.parse::<i64>().map_err(|_| malformed());
    Ok(match kind {
        "+" => Reply::Text(rest.to_owned()),
        "-" => Reply::Error(rest.to_owned()),
        ":" => Reply::Integer(number()?),
        "$" | "*" if rest == "-1" => Reply::Null,
        "$" => {
            let mut bytes = vec![0; usize::try_from(number()?).map_err(|_| malformed())? + "\r\n".len()];
            stream.read_exact(&mut bytes).await?;
            bytes.truncate(bytes.len() - "\r\n".len());
            Reply::Text(String::from_utf8_lossy(&bytes).into_owned())
        }
        "*" => {
            let mut items = Vec::new();
            for _ in 0..number()? {
                items.push(Box::pin(reply(stream)).await?);
            }
            Reply::List(items)
        }
        _ => return Err(malformed()),
    })
}
