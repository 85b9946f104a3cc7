package org.refdb.gerrit.refs;

import java.util.Collection;
import java.util.List;
import org.eclipse.jgit.lib.ObjectId;
import org.eclipse.jgit.transport.PreUploadHook;
import org.eclipse.jgit.transport.PreUploadHookChain;
import org.eclipse.jgit.transport.UploadPack;
import org.eclipse.jgit.transport.UploadPack.ReachableCommitTipRequestValidator;
import org.eclipse.jgit.transport.UploadPack.RequestValidator;

/**
 * Checks what a fetch wants on a connection that serves many commands, which is one over SSH.
 *
 * <p>JGit makes no set of the ids of all refs where it finds this validator of its own. It then asks the validator of each
 * object that the client wants. Just before, it calls {@link #onBeginNegotiateRound}, where another takes the first one's
 * place. Lists of refs are not touched, since JGit has no map of refs before the pack is sent.
 */
final class LateCheck implements PreUploadHook {
  private final RequestValidator check;
  private PreUploadHook all;
  private boolean begun;

  private LateCheck(RequestValidator check) {
    this.check = check;
  }

  /** Adds one to the hooks, which does nothing before it has begun. */
  static LateCheck add(UploadPack upload, RequestValidator check) {
    LateCheck added = new LateCheck(check);
    added.all = PreUploadHookChain.newChain(List.of(upload.getPreUploadHook(), added));
    upload.setPreUploadHook(added.all);
    return added;
  }

  /** Unless somebody has set other hooks since. Without its hook, JGit's validator would answer. */
  void begin(UploadPack upload) {
    if (upload.getPreUploadHook() == all) {
      begun = true;
      upload.setRequestValidator(new ReachableCommitTipRequestValidator());
    }
  }

  @Override
  public void onBeginNegotiateRound(UploadPack upload, Collection<? extends ObjectId> wants, int offered) {
    if (begun) {
      upload.setRequestValidator(check);
    }
  }

  @Override
  public void onEndNegotiateRound(
      UploadPack upload, Collection<? extends ObjectId> wants, int common, int notFound, boolean ready) {
    if (begun) {
      upload.setRequestValidator(new ReachableCommitTipRequestValidator());
    }
  }

  /** Branches and tags say which objects begin the pack. JGit forgets the refs as the pack begins. */
  @Override
  public void onSendPack(UploadPack upload, Collection<? extends ObjectId> wants, Collection<? extends ObjectId> haves) {
    if (begun && upload.getAdvertisedRefs() == null) {
      upload.setAdvertisedRefs(WantedRefs.near(upload));
    }
  }
}
