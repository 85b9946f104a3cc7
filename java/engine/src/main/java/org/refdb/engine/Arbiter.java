package org.refdb.engine;

import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * Decides, between prepare and commit, whether a batch happens: it speaks for a global ref database. The refs are
 * locked while it is asked. An object is for one batch and one thread, and throws nothing.
 */
public abstract class Arbiter {
  /** What it says of a batch. */
  public sealed interface Verdict {
    /** The global ref database has the new values, or does not store these refs. */
    record Agreed() implements Verdict {}

    /** Nothing is changed there, and never will be by this batch. */
    record Refused() implements Verdict {}

    /** Nobody knows. */
    record Unknown() implements Verdict {}

    /**
     * It is to be asked, or asked again, after an intent with this mark was written.
     *
     * @param id the intent's name: letters, digits, dashes and underscores; the same each time
     * @param mark one line, kept in the intent
     */
    record Ask(String id, String mark) implements Verdict {}
  }

  /** Hears of the changes. {@link Verdict.Agreed} here means that these refs are not its affair. */
  protected abstract Verdict begin(List<GlobalRef> refs);

  /** Is asked, once the intent is on stable storage. */
  protected abstract Verdict ask();

  /** The library's entry. */
  final byte[] begin(byte[] refs) {
    return pack(begin(GlobalRef.unpack(new Unpacker(refs))));
  }

  /** The library's entry. */
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
