package org.refdb.engine;

import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * Decides between prepare and commit whether a batch is committed, on behalf of a global ref database. The refs are
 * locked while the arbiter is asked. Each object is for one batch and one thread. Its methods must not throw.
 */
public abstract class Arbiter {
  /** The decision about a batch. */
  public sealed interface Verdict {
    /** The global ref database has the new values, or does not store these refs. */
    record Agreed() implements Verdict {}

    /** The global ref database has changed nothing, and never will because of this batch. */
    record Refused() implements Verdict {}

    /** It is not known whether the global ref database has the new values. */
    record Unknown() implements Verdict {}

    /**
     * The arbiter is to be asked, or asked again, after an intent with this mark has been written. The global ref
     * database has changed nothing yet: if the intent cannot be written, the batch is given up.
     *
     * @param id the name of the intent: 1 to 128 letters, digits, dashes and underscores; the same each time
     * @param mark one line of 1 to 512 printable ASCII characters, which is stored in the intent
     */
    record Ask(String id, String mark) implements Verdict {}
  }

  /**
   * Receives the changes of the batch. {@link Verdict.Agreed} means here that the global ref database does not store
   * these refs. {@link Verdict.Unknown} counts as {@link Verdict.Refused}, because nothing was asked yet.
   */
  protected abstract Verdict begin(List<GlobalRef> refs);

  /** Asks the global ref database, after the intent has reached stable storage. */
  protected abstract Verdict ask();

  /** Calls {@link #begin(List)} for the library. */
  final byte[] begin(byte[] refs) {
    return pack(begin(GlobalRef.unpack(new Unpacker(refs))));
  }

  /** Calls {@link #ask} for the library. */
  final byte[] askPacked() {
    return pack(ask());
  }

  private static byte[] pack(Verdict verdict) {
    Packer answer = new Packer();
    switch (verdict) {
      case Verdict.Agreed agreed -> answer.u8(0);
      case Verdict.Refused refused -> answer.u8(1);
      case Verdict.Unknown unknown -> answer.u8(2);
      case Verdict.Ask ask -> answer.u8(3).bytes(utf8(ask.id())).bytes(utf8(ask.mark()));
    }
    return answer.toByteArray();
  }

  private static byte[] utf8(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
