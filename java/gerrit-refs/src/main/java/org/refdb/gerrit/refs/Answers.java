package org.refdb.gerrit.refs;

import java.util.Collection;
import java.util.Map;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.lib.Ref;

/** Formats the answers of a ref database as text that is equal if the answers mean the same. */
final class Answers {
  private Answers() {}

  static String text(Object answer) {
    StringBuilder text = new StringBuilder();
    if (answer instanceof Collection<?> list) {
      list.stream().map(Answers::one).sorted().forEach(line -> text.append(line).append('\n'));
    } else if (answer instanceof Map<?, ?> map) {
      map.entrySet().stream()
          .map(entry -> entry.getKey() + "=" + one(entry.getValue()))
          .sorted()
          .forEach(line -> text.append(line).append('\n'));
    } else {
      text.append(one(answer));
    }
    return text.toString();
  }

  private static String one(Object answer) {
    return answer instanceof Ref ref ? ref(ref) : String.valueOf(answer);
  }

  /** Formats the target of a ref, but not whether it is packed, nor a peeled id, which databases may differ in. */
  static String ref(Ref ref) {
    ObjectId id = ref.getObjectId();
    String target = ref.isSymbolic() ? "ref: " + ref.getTarget().getName() + " " : "";
    return ref.getName() + " " + target + (id == null ? "unborn" : id.name());
  }

  /** Formats two texts from the line in which they differ, at most {@code max} characters of each. */
  static String difference(String wanted, String got, int max) {
    int at = 0;
    int limit = Math.min(wanted.length(), got.length());
    while (at < limit && wanted.charAt(at) == got.charAt(at)) {
      at++;
    }
    int from = wanted.lastIndexOf('\n', Math.max(0, at - 1)) + 1;
    return "JGit says <" + part(wanted, from, max) + ">, refdb <" + part(got, from, max) + ">";
  }

  private static String part(String text, int from, int max) {
    int start = Math.min(from, text.length());
    return text.substring(start, Math.min(text.length(), start + max)).strip();
  }
}
