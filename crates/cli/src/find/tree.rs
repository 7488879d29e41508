//! Tokens of an expression as a tree, by the usual precedence.
//!
//! `,` binds least, then `-o`, then `-a` (also where two expressions just stand side by side), then
//! `!`. Texts of errors are GNU find's.

use super::expr::Expr;
use super::parse::Result;

/// Parentheses nest no deeper: evaluation recurses once per level.
pub(super) const NESTING_MAX: usize = 256;

/// A word of the expression with the text it was written as.
pub(super) struct Token {
    pub(super) text: String,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Open,
    Close,
    Not,
    And,
    Or,
    Comma,
    Primary(Expr),
}

/// Builds the tree from tokens.
pub(super) struct Tree {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
    /// The text of the last token taken.
    last: String,
    nesting: usize,
}

impl Tree {
    pub(super) fn new(tokens: Vec<Token>) -> Self {
        Self { tokens: tokens.into_iter().peekable(), last: String::new(), nesting: 0 }
    }

    /// The tree of all tokens.
    ///
    /// # Errors
    /// Tokens that are no expression.
    pub(super) fn read(mut self) -> Result<Expr> {
        let expr = self.list()?;
        match self.tokens.next() {
            None => Ok(expr),
            Some(_) => Err("you have too many ')'".to_owned().into()),
        }
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.next()?;
        self.last.clone_from(&token.text);
        Some(token)
    }

    fn next_is(&mut self, kind: fn(&Kind) -> bool) -> bool {
        self.tokens.peek().is_some_and(|token| kind(&token.kind))
    }

    fn list(&mut self) -> Result<Expr> {
        let mut items = vec![self.or()?];
        while self.next_is(|kind| matches!(kind, Kind::Comma)) {
            self.next();
            items.push(self.or()?);
        }
        Ok(single(items, Expr::List))
    }

    fn or(&mut self) -> Result<Expr> {
        let mut items = vec![self.and()?];
        while self.next_is(|kind| matches!(kind, Kind::Or)) {
            self.next();
            items.push(self.and()?);
        }
        Ok(single(items, Expr::Or))
    }

    fn and(&mut self) -> Result<Expr> {
        let mut items = vec![self.not()?];
        loop {
            if self.next_is(|kind| matches!(kind, Kind::And)) {
                self.next();
            } else if !self
                .next_is(|kind| matches!(kind, Kind::Open | Kind::Not | Kind::Primary(_)))
            {
                return Ok(single(items, Expr::And));
            }
            items.push(self.not()?);
        }
    }

    fn not(&mut self) -> Result<Expr> {
        let mut negated = false;
        while self.next_is(|kind| matches!(kind, Kind::Not)) {
            self.next();
            negated = !negated;
        }
        let expr = self.primary()?;
        Ok(if negated { Expr::Not(Box::new(expr)) } else { expr })
    }

    fn primary(&mut self) -> Result<Expr> {
        let before = self.last.clone();
        let Some(token) = self.next() else {
            return Err(if before == "(" {
                "invalid expression; expected to find a ')' but didn't see one. Perhaps you need \
                 an extra predicate after '('"
                    .to_owned()
            } else {
                format!("expected an expression after '{before}'")
            }
            .into());
        };
        match token.kind {
            Kind::Primary(expr) => Ok(expr),
            Kind::Open => self.parenthesis(),
            Kind::Close if before == "(" => {
                Err("invalid expression; empty parentheses are not allowed.".to_owned().into())
            }
            Kind::Close if before.is_empty() => {
                Err("invalid expression: expected expression before closing parentheses ')'."
                    .to_owned()
                    .into())
            }
            Kind::Close => Err(format!("expected an expression between '{before}' and ')'").into()),
            Kind::And | Kind::Or | Kind::Comma | Kind::Not => Err(format!(
                "invalid expression; you have used a binary operator '{}' with nothing before it.",
                token.text
            )
            .into()),
        }
    }

    fn parenthesis(&mut self) -> Result<Expr> {
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            return Err(format!("parentheses nest deeper than {NESTING_MAX} levels").into());
        }
        let expr = self.list()?;
        self.nesting -= 1;
        match self.next() {
            Some(Token { kind: Kind::Close, .. }) => Ok(expr),
            _ => Err(
                "invalid expression; I was expecting to find a ')' somewhere but did not see one."
                    .to_owned()
                    .into(),
            ),
        }
    }
}

/// A node of one operand is that operand.
fn single(mut items: Vec<Expr>, node: fn(Vec<Expr>) -> Expr) -> Expr {
    match items.pop() {
        Some(only) if items.is_empty() => only,
        Some(last) => {
            items.push(last);
            node(items)
        }
        None => node(items),
    }
}
