/** The workflow of the runs that keep what triggers are given. */
const MAILBOX = "perdure:trigger";

/** Whether what is parked there is an item of a trigger. */
export const isItem = (workflow: string | null | undefined): boolean => workflow === MAILBOX;
