package org.refdb.gerrit.refs;

import com.google.common.flogger.FluentLogger;
import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.eclipse.jgit.lib.RefDatabase;
import org.refdb.engine.EngineException;

/** Queries JGit and refdb, returns JGit's answer, and counts and logs where refdb's differs. */
final class Comparison {
  private static final FluentLogger logger = FluentLogger.forEnclosingClass();
  private static final int ATTEMPTS_MAX = 3;
  private static final int LOGGED_CHARS_MAX = 400;

  /** A query about refs. */
  interface Question<T> {
    T of(RefDatabase refs) throws IOException;
  }

  private final RefDatabase jgit;
  private final RefDatabase engine;
  private final ProjectState state;

  Comparison(RefDatabase jgit, RefDatabase engine, ProjectState state) {
    this.jgit = jgit;
    this.engine = engine;
    this.state = state;
  }

  /**
   * Queries both databases, and returns JGit's answer.
   *
   * <p>Because refs may be changed between the two queries, a difference counts only if JGit gives the same answer
   * before and after refdb is queried. Otherwise refdb is queried again and compared with JGit's later answer, up to
   * three times in all; after that no difference is counted.
   */
  <T> T ask(String what, Question<T> question) throws IOException {
    T answer = question.of(jgit);
    state.compared.increment();
    for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      String wanted = Answers.text(answer);
      String got = fromEngine(question);
      if (got == null || got.equals(wanted)) {
        return answer;
      }
      T again = question.of(jgit);
      if (Answers.text(again).equals(wanted)) {
        report(what, wanted, got);
        return answer;
      }
      answer = again;
    }
    return answer;
  }

  void refreshEngine() {
    engine.refresh();
  }

  /**
   * Returns the engine's answer as text, or the text of its error. Returns null if that error is a broken ref, because
   * JGit may find a value for that ref in packed-refs.
   */
  private String fromEngine(Comparison.Question<?> question) {
    // Without this, a stale answer that a request's cache or the trust settings permit would count as a difference.
    engine.refresh();
    try {
      return Answers.text(question.of(engine));
    } catch (EngineException e) {
      return e.kind() == EngineException.Kind.BROKEN_REF ? null : e.toString();
    } catch (IOException | RuntimeException e) {
      return e.toString();
    }
  }

  private void report(String what, String wanted, String got) {
    state.different.increment();
    logger.atSevere().atMostEvery(1, TimeUnit.SECONDS).log(
        "shadow mode: refdb and JGit differ in project %s on %s: %s",
        state.name, what, Answers.difference(wanted, got, LOGGED_CHARS_MAX));
  }
}
