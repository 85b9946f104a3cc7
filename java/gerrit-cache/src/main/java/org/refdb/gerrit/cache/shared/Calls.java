package org.refdb.gerrit.cache.shared;

/**
 * Calls that were made together. Closing gives up the calls that have no answer, and frees the memory of all answers,
 * including those that were not taken because of an earlier error.
 */
final class Calls implements AutoCloseable {
  private final Call[] calls;

  Calls(Call[] calls) {
    this.calls = calls;
  }

  int size() {
    return calls.length;
  }

  Call get(int i) {
    return calls[i];
  }

  @Override
  public void close() {
    for (Call call : calls) {
      call.close();
    }
  }
}
